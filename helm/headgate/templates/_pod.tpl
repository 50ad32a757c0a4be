{{/*
The pod of one service. All five have the same bones: the same image started as `python -m headgate.<name>`,
/livez, /readyz and /metrics on one health port, a read-only root and two places to write.
Takes (dict "root" $ "component" "poller" "values" .Values.poller "healthPort" 9102), and for some
"ports" and "env" (lists added to the container) and "stateClaim" (the state volume is a claim of the StatefulSet).
*/}}
{{- define "headgate.pod" -}}
{{- $kafka := .root.Values.kafka.security -}}
metadata:
  labels:
    {{- include "headgate.labels" . | nindent 4 }}
    {{- with .values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "headgate.serviceAccountName" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .values.terminationGracePeriodSeconds }}
  {{- with .root.Values.global.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  securityContext:
    {{- toYaml .root.Values.podSecurityContext | nindent 4 }}
  containers:
    - name: {{ .component }}
      image: {{ include "headgate.image" .root }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      args: [python, -m, headgate.{{ .component | replace "-" "_" }}]
      securityContext:
        {{- toYaml .root.Values.containerSecurityContext | nindent 8 }}
      env:
        {{- include "headgate.env" .root | nindent 8 }}
        - name: HEADGATE_HEALTH_HOST
          value: 0.0.0.0
        - name: HEADGATE_HEALTH_PORT
          value: {{ .healthPort | quote }}
        {{- with .env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- with .values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- if or .values.secrets.existingSecret .values.extraEnvFrom }}
      envFrom:
        {{- with .values.secrets.existingSecret }}
        - secretRef: {name: {{ . }}}
        {{- end }}
        {{- with .values.extraEnvFrom }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
      ports:
        - {name: health, containerPort: {{ .healthPort }}}
        {{- with .ports }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      startupProbe:
        httpGet: {path: /livez, port: health}
        periodSeconds: 2
        failureThreshold: {{ .values.probes.startupFailureThreshold }}
      livenessProbe:
        httpGet: {path: /livez, port: health}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: health}
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 2
      {{- with .values.lifecycle }}
      lifecycle:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      resources:
        {{- toYaml .values.resources | nindent 8 }}
      volumeMounts:
        - {name: state, mountPath: /var/lib/headgate}
        - {name: tmp, mountPath: /tmp}
        {{- with include "headgate.kafkaVolumeMounts" $kafka }}
        {{- . | trim | nindent 8 }}
        {{- end }}
        {{- if and .values.secrets.existingSecret .values.secrets.mountPath }}
        - {name: secrets, mountPath: {{ .values.secrets.mountPath }}, readOnly: true}
        {{- end }}
        {{- with .values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    {{- if not .stateClaim }}
    - {name: state, emptyDir: {}}
    {{- end }}
    - {name: tmp, emptyDir: {}}
    {{- with include "headgate.kafkaVolumes" $kafka }}
    {{- . | trim | nindent 4 }}
    {{- end }}
    {{- if and .values.secrets.existingSecret .values.secrets.mountPath }}
    - {name: secrets, secret: {secretName: {{ .values.secrets.existingSecret }}}}
    {{- end }}
    {{- with .values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
