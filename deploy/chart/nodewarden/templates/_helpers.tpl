{{- define "nodewarden.name" -}}
{{- default (default .Chart.Name .Values.nameOverride) .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "nodewarden.serviceAccount" -}}
{{- default (include "nodewarden.name" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "nodewarden.selector" -}}
app.kubernetes.io/name: {{ include "nodewarden.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "nodewarden.labels" -}}
{{ include "nodewarden.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "nodewarden.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{- /* Not empty if the agent talks to the API server. */ -}}
{{- define "nodewarden.connects" -}}
{{- if or (eq .Values.mode "augment") (not .Values.http.anonymous) -}}yes{{- end -}}
{{- end -}}

{{- /* The section `augment:`. The node's files are read through the root of its first process. */ -}}
{{- define "nodewarden.augment" -}}
{{- $node := "/proc/1/root" -}}
{{- $directory := printf "%s%s" $node .Values.augment.kubeletDirectory -}}
{{- $own := deepCopy .Values.augment.features -}}
{{- $_ := set $own "kubeletConfig" (printf "%s%s" $node .Values.augment.kubeletConfig) -}}
{{- $_ := set $own "podResourcesSocket" (printf "%s/pod-resources/kubelet.sock" $directory) -}}
{{- $_ := set $own "devicePluginDirectory" (printf "%s/device-plugins" $directory) -}}
{{- $_ := set $own "hostRoot" $node -}}
{{- toYaml (mergeOverwrite $own .Values.augment.settings) -}}
{{- end -}}

{{- /* The agent's user name at the API server. */ -}}
{{- define "nodewarden.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "nodewarden.serviceAccount" . }}
{{- end -}}

{{- /* The node to which the token of a request is bound. */ -}}
{{- define "nodewarden.policyNode" -}}
- name: node
  expression: >-
    "authentication.kubernetes.io/node-name" in request.userInfo.extra
    ? request.userInfo.extra["authentication.kubernetes.io/node-name"][0] : ""
{{- end -}}

{{- /* The section `nodewarden:` of the configuration. */ -}}
{{- define "nodewarden.section" -}}
{{- $own := dict "mode" .Values.mode "socket" "/run/nodewarden/nodewarden.sock" "stateDir" .Values.stateDir -}}
{{- $_ := set $own "httpAddress" (printf "0.0.0.0:%d" (int .Values.http.port)) -}}
{{- $_ := set $own "httpAllowRemote" true -}}
{{- $_ := set $own "httpAllowAnonymous" .Values.http.anonymous -}}
{{- if .Values.http.allowedHosts -}}{{- $_ := set $own "httpAllowedHosts" .Values.http.allowedHosts -}}{{- end -}}
{{- $_ := set $own "runtimeEndpoint" .Values.runtime.endpoint -}}
{{- if and (include "nodewarden.connects" .) (not (hasKey .Values.settings "kubernetes")) -}}
{{- $_ := set $own "kubernetes" (dict "inCluster" true) -}}
{{- end -}}
{{- if eq .Values.mode "augment" -}}
{{- $_ := set $own "augment" (fromYaml (include "nodewarden.augment" .)) -}}
{{- end -}}
{{- toYaml (mergeOverwrite $own .Values.settings) -}}
{{- end -}}

{{- define "nodewarden.configuration" -}}
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
{{- with .Values.kubelet }}
{{ toYaml . }}
{{- end }}
nodewarden:
  {{- include "nodewarden.section" . | nindent 2 }}
{{- end -}}

{{- /* A kubelet's probe has no token: where clients are authenticated, it only finds out whether the agent listens. */ -}}
{{- define "nodewarden.probe" -}}
{{- if .root.Values.http.anonymous -}}
httpGet: {path: {{ .path }}, port: http}
{{- else -}}
tcpSocket: {port: http}
{{- end -}}
{{- end -}}

{{- /* The three documents that a monitor scrapes. */ -}}
{{- define "nodewarden.endpoints" -}}
{{- range $at, $path := list "/metrics" "/metrics/cadvisor" "/metrics/resource" }}
{{- if $at }}
{{ end -}}
- port: http
  path: {{ $path }}
  interval: {{ $.interval }}
  honorTimestamps: true
  {{- if not $.root.Values.http.anonymous }}
  scheme: https
  tlsConfig: {insecureSkipVerify: true}
  bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
  {{- end }}
{{- end }}
{{- end -}}
