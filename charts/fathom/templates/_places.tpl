{{/* Rule that lets out to one place: a block of addresses, or the pods of a namespace. */}}
{{- define "fathom.placeRule" -}}
- to:
    {{- if .cidr }}
    - ipBlock: {cidr: {{ .cidr | quote }}}
    {{- else }}
    - namespaceSelector:
        matchLabels: {kubernetes.io/metadata.name: {{ .namespace | quote }}}
      {{- with .podLabels }}
      podSelector:
        matchLabels:
          {{- toYaml . | nindent 10 }}
      {{- end }}
    {{- end }}
  ports: [{port: {{ .port }}, protocol: TCP}]
{{- end -}}

{{/* Place of an address as far as its name tells, {} if it does not: (list root host[:port] port). A number is a block
of one address; "name", "name.namespace" and "name.namespace.svc…" are a Service in the cluster. */}}
{{- define "fathom.placeOf" -}}
{{- $root := index . 0 -}}
{{- $host := regexReplaceAll ":[0-9]+$" (index . 1) "" -}}
{{- $port := regexFind ":[0-9]+$" (index . 1) | trimPrefix ":" | default (index . 2) | int -}}
{{- $short := regexReplaceAll "[.]svc([.][a-z0-9.-]+)?$" $host "" -}}
{{- $parts := splitList "." $short -}}
{{- $found := dict -}}
{{- if regexMatch "^[0-9]+([.][0-9]+){3}$" $host -}}
{{- $found = dict "cidr" (printf "%s/32" $host) "port" $port -}}
{{- else if eq (len $parts) 1 -}}
{{- $found = dict "service" $short "namespace" $root.Release.Namespace "port" $port -}}
{{- else if or (ne $short $host) (eq (len $parts) 2) -}}
{{- $found = dict "service" (slice $parts 0 (sub (len $parts) 1) | last) "namespace" (last $parts) "port" $port -}}
{{- end -}}
{{- $found | toYaml -}}
{{- end -}}

{{/* Places of addresses as a list: (list root value addresses port). An address outside the cluster has a name alone, and
walls know none: its networks must be in networkPolicy.externalStores, or the services would wait for it for ever. Which
networks are right nobody can tell from a name, but an entry with another port cannot be meant for it. */}}
{{- define "fathom.placesOf" -}}
{{- $root := index . 0 -}}{{- $policy := $root.Values.networkPolicy -}}
{{- $found := list -}}
{{- range $address := index . 2 -}}
{{- $place := include "fathom.placeOf" (list $root $address (index $ 3)) | fromYaml -}}
{{- if $place -}}
{{- $found = append $found $place -}}
{{- else if $policy.enabled -}}
{{- $port := regexFind ":[0-9]+$" $address | trimPrefix ":" | default (index $ 3) | int -}}
{{- $isOpen := false -}}
{{- range $policy.externalStores }}{{ if eq (int .port) $port }}{{ $isOpen = true }}{{ end }}{{ end -}}
{{- if not $isOpen -}}
{{- fail (printf "networkPolicy.externalStores is needed: %s is %s, outside the cluster, and the network policies would let no pod go to its port %d. Name its networks with that port, e.g. [{cidr: 203.0.113.0/24, port: %d}], or set networkPolicy.enabled=false" (index $ 1) $address $port $port) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $found | toYaml -}}
{{- end -}}

{{- define "fathom.storePlaces" -}}
{{- $store := .Values.objectStore -}}
{{- include "fathom.placesOf" (list . "objectStore.endpoint" (list $store.endpoint) (ternary "443" "80" $store.secure)) -}}
{{- end -}}

{{- define "fathom.busPlaces" -}}
{{- $servers := list -}}
{{- range splitList "," .Values.nats.external.servers }}{{ $servers = append $servers (trim .) }}{{ end -}}
{{- include "fathom.placesOf" (list . "nats.external.servers" $servers "4222") -}}
{{- end -}}
