{{/* The settings contract of every service: HEADGATE_*, nested with a double underscore. */}}

{{- define "headgate.env" -}}
- name: HEADGATE_KAFKA__BOOTSTRAP
  value: {{ .Values.kafka.bootstrapServers | quote }}
- name: HEADGATE_KAFKA__PREFIX
  value: {{ .Values.kafka.prefix | quote }}
- name: HEADGATE_KAFKA__COMPRESSION
  value: {{ .Values.kafka.compression }}
- name: HEADGATE_KAFKA__PARTITIONS
  value: {{ .Values.topics.partitions | quote }}
{{ include "headgate.kafkaSecurityEnv" .Values.kafka.security }}
- name: HEADGATE_REGISTRY__URL
  value: {{ .Values.schemaRegistry.url | quote }}
{{- with .Values.schemaRegistry.existingSecret }}
- name: HEADGATE_REGISTRY__USERNAME
  valueFrom: {secretKeyRef: {name: {{ . }}, key: {{ $.Values.schemaRegistry.usernameKey }}}}
- name: HEADGATE_REGISTRY__PASSWORD
  valueFrom: {secretKeyRef: {name: {{ . }}, key: {{ $.Values.schemaRegistry.passwordKey }}}}
{{- end }}
- name: HEADGATE_LOG_FORMAT
  value: {{ .Values.log.format }}
- name: HEADGATE_LOG_LEVEL
  value: {{ .Values.log.level }}
- name: HEADGATE_STATE_DIR
  value: /var/lib/headgate/state
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "headgate.kafkaSecurityEnv" -}}
- name: HEADGATE_KAFKA__SECURITY_PROTOCOL
  value: {{ .protocol }}
{{- if hasPrefix "SASL_" .protocol }}
- name: HEADGATE_KAFKA__SASL_MECHANISM
  value: {{ .saslMechanism }}
- name: HEADGATE_KAFKA__SASL_USERNAME
  valueFrom: {secretKeyRef: {name: {{ .existingSecret }}, key: {{ .usernameKey }}}}
- name: HEADGATE_KAFKA__SASL_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ .existingSecret }}, key: {{ .passwordKey }}}}
{{- end }}
{{- if hasSuffix "SSL" .protocol }}
{{- if .tls.caSecret }}
- name: HEADGATE_KAFKA__SSL_CA_LOCATION
  value: /etc/headgate/kafka-ca/{{ .tls.caKey }}
{{- end }}
{{- if .tls.clientSecret }}
- name: HEADGATE_KAFKA__SSL_CERTIFICATE_LOCATION
  value: /etc/headgate/kafka-client/{{ .tls.certKey }}
- name: HEADGATE_KAFKA__SSL_KEY_LOCATION
  value: /etc/headgate/kafka-client/{{ .tls.keyKey }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "headgate.kafkaVolumeMounts" -}}
{{- if hasSuffix "SSL" .protocol }}
{{- if .tls.caSecret }}
- {name: kafka-ca, mountPath: /etc/headgate/kafka-ca, readOnly: true}
{{- end }}
{{- if .tls.clientSecret }}
- {name: kafka-client, mountPath: /etc/headgate/kafka-client, readOnly: true}
{{- end }}
{{- end }}
{{- end -}}

{{- define "headgate.kafkaVolumes" -}}
{{- if hasSuffix "SSL" .protocol }}
{{- with .tls.caSecret }}
- {name: kafka-ca, secret: {secretName: {{ . }}}}
{{- end }}
{{- with .tls.clientSecret }}
- {name: kafka-client, secret: {secretName: {{ . }}}}
{{- end }}
{{- end }}
{{- end -}}
