{{/* Name of the release's objects: at most 40 characters, so that a suffix fits into 63. */}}
{{- define "fathom.name" -}}
{{- $base := ternary .Release.Name (printf "%s-fathom" .Release.Name) (contains "fathom" .Release.Name) -}}
{{- if gt (len $base) 40 -}}
{{- printf "%s-%s" (trunc 31 $base | trimSuffix "-") (sha256sum .Release.Name | trunc 8) -}}
{{- else -}}
{{- $base -}}
{{- end -}}
{{- end -}}

{{/* Labels that select pods: (list root component). */}}
{{- define "fathom.selector" -}}
app.kubernetes.io/name: fathom
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 | quote }}
{{- end -}}

{{/* All labels: (list root component). */}}
{{- define "fathom.labels" -}}
{{ include "fathom.selector" . }}
app.kubernetes.io/part-of: fathom
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service | quote }}
{{- end -}}

{{/* Image of a target: (list root target). */}}
{{- define "fathom.image" -}}
{{- $root := index . 0 -}}{{- $target := index . 1 -}}{{- $image := $root.Values.image -}}
{{- $registry := $root.Values.global.image.registry | default $image.registry -}}
{{- $name := printf "%s-%s" $image.repository $target -}}
{{- $path := ternary (printf "%s/%s" $registry $name) $name (ne $registry "") -}}
{{- with index $image.digests $target -}}
{{- printf "%s@%s" $path . -}}
{{- else -}}
{{- printf "%s:%s" $path ($image.tag | default $root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* Image of somebody else: (list root image). */}}
{{- define "fathom.otherImage" -}}
{{- $root := index . 0 -}}{{- $image := index . 1 -}}
{{- $registry := $root.Values.global.image.registry | default $image.registry -}}
{{- $path := ternary (printf "%s/%s" $registry $image.repository) $image.repository (ne $registry "") -}}
{{- if $image.digest -}}{{ $path }}@{{ $image.digest }}{{- else -}}{{ $path }}:{{ $image.tag }}{{- end -}}
{{- end -}}

{{/* Names of what is run like a service, and has no door but that of metrics: watches over what users ask for. */}}
{{- define "fathom.watches" -}}
[grading, shadow]
{{- end -}}

{{/* The services, and the watches that are run as such, by name as YAML. */}}
{{- define "fathom.services" -}}
{{- $found := deepCopy .Values.services -}}
{{- range $name := include "fathom.watches" . | fromYamlArray -}}
{{- $watch := index $.Values $name -}}
{{- if $watch.enabled }}{{ $_ := set $found $name (omit $watch "enabled") }}{{ end -}}
{{- end -}}
{{- $found | toYaml -}}
{{- end -}}

{{/* Block of one service over the defaults, as YAML: (list root name). */}}
{{- define "fathom.service" -}}
{{- $root := index . 0 -}}{{- $own := index (include "fathom.services" $root | fromYaml) (index . 1) -}}
{{- $service := mergeOverwrite (deepCopy $root.Values.defaults) $own -}}
{{- if and (eq (index . 1) "memory") $root.Values.memory.databaseSecret -}}
{{- /* What PostgreSQL holds needs no volume and no fixed pod. */ -}}
{{- $_ := set $service "kind" "Deployment" -}}
{{- $_ := set $service "replicas" (max 2 (int $service.replicas)) -}}
{{- $_ := set $service "volume" (dict "enabled" false) -}}
{{- $_ := set $service "env" (omit $service.env "path") -}}
{{- end -}}
{{- if eq (index . 1) "sandbox" -}}
{{- /* What an operator sets in env stays as it is. */ -}}
{{- $_ := set $service "env" (merge $service.env (include "fathom.isolation" $service | fromYaml)) -}}
{{- end -}}
{{- $service | toYaml -}}
{{- end -}}

{{/* The sandbox's settings of isolation, which follow from what its RuntimeClass puts around the pod: its block. The
three only work together: gVisor's kernel has no Landlock, and a boundary that is not declared counts for nothing. */}}
{{- define "fathom.isolation" -}}
{{- $class := .runtimeClassName -}}
{{- $boundary := .boundary | default (get (dict "gvisor" "guest-kernel" "kata" "vm") $class) -}}
{{- if and $class (not $boundary) -}}
{{- fail (printf "services.sandbox.boundary is needed: the name of the RuntimeClass %s does not say what it puts around the pod; guest-kernel (gVisor) or vm (Kata Containers)" $class) -}}
{{- end -}}
min_isolation: {{ $boundary | default "landlock" }}
walls: {{ ternary "seccomp" "landlock" (eq $boundary "guest-kernel") }}
{{- with $boundary }}
boundary: {{ . }}
{{- end }}
{{- end -}}

{{/* Port of a service's gRPC door: (list root name). Ray Serve's door is another one. */}}
{{- define "fathom.port" -}}
{{- ternary "9000" "50051" (and (eq (index . 1) "policy") (index . 0).Values.policyRayService.enabled) -}}
{{- end -}}

{{/* Host names that the gateway answers to, as a list: those of the values, and those that a route of the release brings
it; without these a page would open on a refusal. */}}
{{- define "fathom.allowedHosts" -}}
{{- $gateway := .Values.gateway -}}{{- $hosts := $gateway.allowedHosts -}}
{{- if $gateway.ingress.enabled }}{{ $hosts = append $hosts $gateway.ingress.host }}{{ end -}}
{{- if $gateway.httpRoute.enabled -}}
{{- range $name := $gateway.httpRoute.hostnames -}}
{{- $suffix := trimPrefix "*" $name -}}{{- $isNamed := has "*" $hosts -}}
{{- range $hosts }}{{ if hasSuffix $suffix . }}{{ $isNamed = true }}{{ end }}{{ end -}}
{{- if ne $suffix $name -}}
{{- if not $isNamed -}}
{{- fail (printf "gateway.allowedHosts is needed: gateway.httpRoute.hostnames has %s, and the gateway answers to whole names; name those of users, or \"*\" for any" $name) -}}
{{- end -}}
{{- else -}}
{{- $hosts = append $hosts $name -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- uniq $hosts | toYaml -}}
{{- end -}}

{{/* Whether the gateway answers to names of this machine alone: "yes" or nothing. */}}
{{- define "fathom.isLoopbackAlone" -}}
{{- if not (without (include "fathom.allowedHosts" . | fromYamlArray) "localhost" "127.0.0.1" "[::1]") }}yes{{ end -}}
{{- end -}}
