{{- define "image" }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}

{{- define "labels" }}{app.kubernetes.io/name: osqueue, app.kubernetes.io/instance: {{ .Release.Name }}, app.kubernetes.io/component: node}{{ end }}

{{- /* For containers: no rights, and nothing to write to but the volumes. */}}
{{- define "restricted" -}}
{allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
{{- end }}
{{- define "user" -}}
{runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
{{- end }}
