{{/* The objects around a pod that are the same for every service. Each takes the dict of "headgate.pod". */}}

{{- define "headgate.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "headgate.componentName" . }}
  labels:
    {{- include "headgate.labels" . | nindent 4 }}
spec:
  replicas: {{ .values.replicaCount }}
  selector:
    matchLabels:
      {{- include "headgate.selectorLabels" . | nindent 6 }}
  template:
    {{- include "headgate.pod" . | nindent 4 }}
{{- end -}}

{{/* Carries the health port (probes by hand, /metrics) and whatever the service serves besides. */}}
{{- define "headgate.service" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "headgate.componentName" . }}
  labels:
    {{- include "headgate.labels" . | nindent 4 }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- if .headless }}
  clusterIP: None
  publishNotReadyAddresses: true
  {{- else }}
  type: {{ default "ClusterIP" .type }}
  {{- end }}
  selector:
    {{- include "headgate.selectorLabels" . | nindent 4 }}
  ports:
    {{- with .ports }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    - {name: health, port: {{ .healthPort }}, targetPort: health}
{{- end -}}

{{- define "headgate.serviceaccount" -}}
{{- if .values.serviceAccount.create -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "headgate.serviceAccountName" . }}
  labels:
    {{- include "headgate.labels" . | nindent 4 }}
  {{- with .values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end -}}
{{- end -}}

{{/* With one replica a budget could only ever block a node's drain. */}}
{{- define "headgate.pdb" -}}
{{- if and .values.podDisruptionBudget.enabled (gt (int .values.replicaCount) 1) -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "headgate.componentName" . }}
  labels:
    {{- include "headgate.labels" . | nindent 4 }}
spec:
  maxUnavailable: {{ .values.podDisruptionBudget.maxUnavailable }}
  selector:
    matchLabels:
      {{- include "headgate.selectorLabels" . | nindent 6 }}
{{- end -}}
{{- end -}}

{{- define "headgate.servicemonitor" -}}
{{- $monitor := .root.Values.serviceMonitor -}}
{{- if $monitor.enabled -}}
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ include "headgate.componentName" . }}
  labels:
    {{- include "headgate.labels" . | nindent 4 }}
    {{- with $monitor.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels:
      {{- include "headgate.selectorLabels" . | nindent 6 }}
  endpoints:
    - port: health
      path: /metrics
      interval: {{ $monitor.interval }}
{{- end -}}
{{- end -}}
