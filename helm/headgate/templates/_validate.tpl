{{/* What the schema cannot say: settings that only make sense together. Each message carries its fix. */}}
{{- define "headgate.validate" -}}
{{- $security := .Values.kafka.security -}}
{{- if not .Values.kafka.bootstrapServers -}}
{{- fail "kafka.bootstrapServers is empty: Headgate uses a Kafka you have and installs none. Set it, for example: --set kafka.bootstrapServers=my-kafka.kafka.svc:9092" -}}
{{- end -}}
{{- if not .Values.schemaRegistry.url -}}
{{- fail "schemaRegistry.url is empty: Headgate needs a Schema Registry with the Confluent API. Set it, for example: --set schemaRegistry.url=http://schema-registry.kafka.svc:8081 (for Apicurio the path ends in /apis/ccompat/v7)" -}}
{{- end -}}
{{- if hasPrefix "SASL_" $security.protocol -}}
{{- if not $security.saslMechanism -}}
{{- fail (printf "kafka.security.protocol is %s, but kafka.security.saslMechanism is empty: set it to PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512" $security.protocol) -}}
{{- end -}}
{{- if not $security.existingSecret -}}
{{- fail (printf "kafka.security.protocol is %s, but kafka.security.existingSecret is empty: name a Secret with the keys %q and %q, for example: kubectl create secret generic headgate-kafka --from-literal=%s=... --from-literal=%s=..." $security.protocol $security.usernameKey $security.passwordKey $security.usernameKey $security.passwordKey) -}}
{{- end -}}
{{- end -}}
{{- if and (or $security.tls.caSecret $security.tls.clientSecret) (not (hasSuffix "SSL" $security.protocol)) -}}
{{- fail (printf "kafka.security.tls names a Secret, but kafka.security.protocol is %s, which uses no TLS: set it to SSL or SASL_SSL, or remove the Secret" $security.protocol) -}}
{{- end -}}
{{- if gt (int .Values.processor.replicaCount) (int .Values.topics.partitions) -}}
{{- fail (printf "processor.replicaCount is %d, but topics.partitions is %d: replicas above that would do nothing. Lower replicaCount, or raise topics.partitions before the first install" (int .Values.processor.replicaCount) (int .Values.topics.partitions)) -}}
{{- end -}}
{{- if and .Values.ingestWebhook.enabled .Values.ingestWebhook.ingress.enabled (not .Values.ingestWebhook.ingress.hosts) -}}
{{- fail "ingestWebhook.ingress.enabled is true, but ingestWebhook.ingress.hosts is empty: without a host the webhooks would answer on every name of the ingress. Set one, for example: --set ingestWebhook.ingress.hosts={hooks.example.com}" -}}
{{- end -}}
{{- if and .Values.ingestWebhook.ingress.enabled (not .Values.ingestWebhook.enabled) -}}
{{- fail "ingestWebhook.ingress.enabled is true, but ingestWebhook.enabled is false: nothing would answer behind it. Enable the service or disable its ingress" -}}
{{- end -}}
{{- end -}}
