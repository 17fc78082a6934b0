{{/* URLs of the services that one calls, as JSON: (list root name). Unary calls between services go over NATS. */}}
{{- define "fathom.endpoints" -}}
{{- $root := index . 0 -}}{{- $name := index . 1 -}}{{- $prefix := include "fathom.name" $root -}}
{{- $unary := list "retrieval" "datafetch" "memory" "reward" -}}
{{- $found := dict -}}
{{- range $peer := (include "fathom.service" . | fromYaml).calls -}}
{{- if and (has $peer $unary) (ne $name "gateway") -}}
{{- $_ := set $found $peer "nats://" -}}
{{- else if eq $peer "sandbox" -}}
{{- $pods := list -}}
{{- range $i := until (int (include "fathom.service" (list $root "sandbox") | fromYaml).replicas) -}}
{{- $pods = append $pods (printf "%s-sandbox-%d.%s-sandbox:50051" $prefix $i $prefix) -}}
{{- end -}}
{{- $_ := set $found $peer (printf "%s://%s" (include "fathom.scheme" (list $root $peer)) (join "," $pods)) -}}
{{- else -}}
{{- $_ := set $found $peer (printf "%s://%s-%s:%s" (include "fathom.scheme" (list $root $peer)) $prefix $peer (include "fathom.port" (list $root $peer))) -}}
{{- end -}}
{{- end -}}
{{- $found | toJson -}}
{{- end -}}

{{/* URL of the bus; user and password come from NATS_USER and NATS_PASSWORD: a URL could not hold every password. */}}
{{- define "fathom.busUrl" -}}
{{- $nats := .Values.nats -}}
{{- $ca := ternary "&ca=/etc/nats-ca/ca.crt" "" (ne $nats.tlsSecret "") -}}
{{- if $nats.enabled -}}
{{- $scheme := ternary "tls" "nats" (ne $nats.tlsSecret "") -}}
{{- printf "%s://%s-nats:4222?replicas=%d%s" $scheme (include "fathom.name" .) (int $nats.replicas) $ca -}}
{{- else -}}
{{- $servers := list -}}
{{- range splitList "," (required "nats.external.servers is needed when nats.enabled is false" $nats.external.servers) -}}
{{- $servers = append $servers (trim .) -}}
{{- end -}}
{{- printf "%s://%s?replicas=%d%s" (ternary "tls" "nats" $nats.external.tls) (join "," $servers) (int $nats.external.streamReplicas) $ca -}}
{{- end -}}
{{- end -}}

{{/* URL of the object store; its keys come from the environment of the pod. */}}
{{- define "fathom.storeUrl" -}}
{{- $store := .Values.objectStore -}}
{{- if $store.dev.enabled -}}
{{- printf "s3://%s-minio:9000/%s?secure=false&region=%s" (include "fathom.name" .) $store.bucket $store.region -}}
{{- else -}}
{{- $endpoint := required "objectStore.endpoint is needed, or objectStore.dev.enabled for a trial" $store.endpoint -}}
{{- printf "s3://%s/%s?secure=%t&region=%s" $endpoint $store.bucket $store.secure $store.region -}}
{{- end -}}
{{- end -}}

{{/* Settings of a service as its environment: (list root name). A change of them rolls its pods. */}}
{{- define "fathom.settings" -}}
{{- $root := index . 0 -}}{{- $name := index . 1 -}}{{- $service := include "fathom.service" . | fromYaml -}}
FATHOM_RUNTIME_HOST: "0.0.0.0"
FATHOM_RUNTIME_IDENTITY_FILE: /etc/fathom/identity/keys.pem
{{- $isWatch := has $name (include "fathom.watches" $root | fromYamlArray) }}
{{- if not $isWatch }}
FATHOM_RUNTIME_PORT: {{ ternary "8080" "50051" (eq $service.http true) | quote }}
{{- end }}
{{- if not $service.http }}
FATHOM_RUNTIME_METRICS_PORT: "9090"
{{- end }}
{{- if $root.Values.certificates.enabled }}
FATHOM_RUNTIME_TLS_DIR: /etc/fathom/tls
# Ray Serve's own door speaks no TLS: with it calls to policy stay in plain text.
FATHOM_RUNTIME_TLS_REQUIRED: {{ not $root.Values.policyRayService.enabled | quote }}
{{- if not (or $service.http $isWatch) }}
FATHOM_RUNTIME_HEALTH_PORT: "50052"
{{- end }}
{{- end }}
{{- if $service.store }}
FATHOM_RUNTIME_STORE_URL: {{ include "fathom.storeUrl" $root | quote }}
{{- end }}
{{- $sandbox := include "fathom.service" (list $root "sandbox") | fromYaml }}
{{- if eq $name "sandbox" }}
FATHOM_SANDBOX_OBJECTS: {{ $sandbox.store | quote }}
{{- else if and (has $name (list "gateway" "planner" "reward")) (not $sandbox.store) }}
FATHOM_{{ upper $name }}_FRAMES_BY_REFERENCE: "false"
{{- end }}
FATHOM_RUNTIME_ENDPOINTS: {{ include "fathom.endpoints" (list $root $name) | quote }}
FATHOM_RUNTIME_LOG_LEVEL: {{ $service.logLevel | quote }}
{{- if and $root.Values.quotas (has $name (list "planner" "policy" "datafetch")) }}
{{- $quotas := dict }}
{{- range $limited, $quota := $root.Values.quotas }}
{{- $setting := dict }}
{{- if hasKey $quota "running" }}{{ $_ := set $setting "running" (int $quota.running) }}{{ end }}
{{- if hasKey $quota "perSecond" }}{{ $_ := set $setting "per_second" (float64 $quota.perSecond) }}{{ end }}
{{- $_ := set $quotas $limited $setting }}
{{- end }}
FATHOM_RUNTIME_QUOTAS: {{ $quotas | toJson | quote }}
{{- end }}
{{- if $service.bus }}
# When all restart at once, the bus may be the last.
FATHOM_RUNTIME_BUS_WAIT_S: "240"
FATHOM_RUNTIME_EVENT_BYTES: {{ int64 $root.Values.nats.eventBytes | quote }}
{{- end }}
# A pod that is the only one of its kind moves with its volume: its callers wait for it.
FATHOM_RUNTIME_CALL_ATTEMPTS: "20"
FATHOM_RUNTIME_GRACE_S: {{ $service.graceSeconds | quote }}
{{- with ternary $root.Values.monitoring.otlpEndpoint "" (or $service.bus $service.store) }}
FATHOM_RUNTIME_OTLP_ENDPOINT: {{ . | quote }}
{{- end }}
{{- if eq $name "gateway" }}
FATHOM_GATEWAY_ALLOWED_HOSTS: {{ include "fathom.allowedHosts" $root | fromYamlArray | toJson | quote }}
{{- if $root.Values.gateway.apiKeysSecret }}
FATHOM_GATEWAY_API_KEYS_FILE: /etc/fathom/api-keys/keys.jsonl
{{- end }}
{{- with $root.Values.gateway.oidc }}
{{- if .issuer }}
FATHOM_GATEWAY_OIDC_ISSUER: {{ .issuer | quote }}
FATHOM_GATEWAY_OIDC_AUDIENCE: {{ .audience | quote }}
FATHOM_GATEWAY_OIDC_JWKS_URL: {{ .jwksUrl | quote }}
FATHOM_GATEWAY_OIDC_TENANT_CLAIM: {{ .tenantClaim | quote }}
FATHOM_GATEWAY_OIDC_ROLES_CLAIM: {{ .rolesClaim | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- if eq $name "shadow" }}
# It stays when it has decided: a pod that ends is started again.
FATHOM_SHADOW_STAYS: "true"
{{- range $key := list "candidate" "baseline" "share" }}
{{- $_ := required (printf "shadow.env.%s is needed" $key) (get $service.env $key) }}
{{- end }}
{{- end }}
{{- range $key, $value := $service.env }}
FATHOM_{{ upper $name }}_{{ upper $key }}: {{ ternary $value ($value | toJson) (kindIs "string" $value) | quote }}
{{- end }}
{{- end -}}

{{/* What every pod's security context says. */}}
{{- define "fathom.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ .Values.pod.userId }}
runAsGroup: {{ .Values.pod.groupId }}
fsGroup: {{ .Values.pod.groupId }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "fathom.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Secrets of bus and store as environment variables: (list root bus store). */}}
{{- define "fathom.secretEnv" -}}
{{- $root := index . 0 -}}
{{- if index . 1 -}}
{{- with $root.Values.nats.authSecret }}
- name: NATS_USER
  valueFrom:
    secretKeyRef: {name: {{ . | quote }}, key: user}
- name: NATS_PASSWORD
  valueFrom:
    secretKeyRef: {name: {{ . | quote }}, key: password}
{{- end }}
{{- end }}
{{- if index . 2 -}}
{{- range list "AWS_ACCESS_KEY_ID" "AWS_SECRET_ACCESS_KEY" }}
- name: {{ . }}
  valueFrom:
    secretKeyRef: {name: {{ $root.Values.objectStore.existingSecret | quote }}, key: {{ . }}}
{{- end }}
{{- end }}
{{- end -}}

{{/* Where pods may land: (list root component block), what the block says before what "pod" says. */}}
{{- define "fathom.placement" -}}
{{- $root := index . 0 -}}{{- $pod := deepCopy $root.Values.pod -}}
{{- range $key := list "priorityClassName" "nodeSelector" "tolerations" "affinity" -}}
{{- with index (index $ 2) $key -}}{{- $_ := set $pod $key . -}}{{- end -}}
{{- end -}}
{{- if not $pod.hostUsers }}
hostUsers: false
{{- end }}
{{- $made := printf "%s-%s-%s" $root.Release.Namespace (include "fathom.name" $root) (ternary "training" "production" (eq (index . 1) "trainer")) -}}
{{- with $pod.priorityClassName | default (ternary $made "" $root.Values.priorityClasses.create) }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with $pod.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $tolerations := $pod.tolerations -}}
{{- /* Jobs stay: a training that is moved begins anew, and a node may come back meanwhile. */ -}}
{{- if not (has (index . 1) (list "trainer" "backup" "tests")) -}}
{{- range $key := list "node.kubernetes.io/not-ready" "node.kubernetes.io/unreachable" -}}
{{- $isSaid := false -}}
{{- range $pod.tolerations }}{{ if eq (.key | default "") $key }}{{ $isSaid = true }}{{ end }}{{ end -}}
{{- if not $isSaid -}}
{{- $tolerations = append $tolerations (dict "key" $key "operator" "Exists" "effect" "NoExecute" "tolerationSeconds" $pod.nodeLossSeconds) -}}
{{- end -}}
{{- end -}}
{{- end }}
{{- with $tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $pod.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $pod.spread }}
topologySpreadConstraints:
  {{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "fathom.selector" $ | nindent 8 }}
  {{- end }}
{{- end }}
{{- with $root.Values.global.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Pod template of a service: (list root name). */}}
{{- define "fathom.pod" -}}
{{- $root := index . 0 -}}{{- $name := index . 1 -}}{{- $service := include "fathom.service" . | fromYaml -}}
metadata:
  labels:
    {{- include "fathom.labels" . | nindent 4 }}
    {{- with $service.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    checksum/config: {{ include "fathom.settings" . | sha256sum }}
    {{- with merge (deepCopy $service.podAnnotations) $root.Values.pod.annotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- with $service.runtimeClassName }}
  runtimeClassName: {{ . | quote }}
  {{- end }}
  serviceAccountName: {{ include "fathom.account" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ add $service.graceSeconds $service.preStopSeconds 10 }}
  securityContext:
    {{- include "fathom.podSecurity" $root | nindent 4 }}
  {{- include "fathom.placement" (list $root $name $service) | nindent 2 }}
  {{- with $service.initContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: {{ $name }}
      image: {{ include "fathom.image" (list $root $service.image) | quote }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      {{- $isWatch := has $name (include "fathom.watches" $root | fromYamlArray) }}
      {{- $commands := dict "grading" "[fathom, eval, watch]" "shadow" "[fathom, shadow, watch]" }}
      command: {{ get $commands $name | default (printf "[python3, -m, fathom.services.%s]" $name) }}
      envFrom:
        - configMapRef:
            name: {{ include "fathom.name" $root }}-{{ $name }}
        {{- with $service.extraEnvFrom }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      env:
        {{- include "fathom.secretEnv" (list $root $service.bus $service.store) | nindent 8 }}
        {{- if and (eq $name "gateway") $root.Values.gateway.tokenSecret }}
        - name: FATHOM_GATEWAY_TOKEN
          valueFrom:
            secretKeyRef: {name: {{ $root.Values.gateway.tokenSecret | quote }}, key: token}
        {{- end }}
        {{- if and (eq $name "memory") $root.Values.memory.databaseSecret }}
        - name: FATHOM_MEMORY_DATABASE_URL
          valueFrom:
            secretKeyRef: {name: {{ $root.Values.memory.databaseSecret | quote }}, key: url}
        {{- end }}
        {{- if and (eq $name "retrieval") $root.Values.retrieval.databaseSecret }}
        - name: FATHOM_RETRIEVAL_DATABASE_URL
          valueFrom:
            secretKeyRef: {name: {{ $root.Values.retrieval.databaseSecret | quote }}, key: url}
        {{- end }}
        - name: FATHOM_RUNTIME_BUS_URL
          value: {{ ternary (include "fathom.busUrl" $root) "memory://" $service.bus | quote }}
        {{- with $service.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- if or $service.http $isWatch }}
      {{- $door := ternary "metrics" "http" $isWatch }}
      ports:
        - {name: {{ $door }}, containerPort: {{ ternary 9090 8080 $isWatch }}}
      # Every second: where a service has one pod, its users wait for what it takes until the next look.
      startupProbe:
        httpGet: {path: /healthz/live, port: {{ $door }}}
        periodSeconds: 1
        failureThreshold: {{ $service.startupSeconds }}
      readinessProbe:
        httpGet: {path: /healthz/ready, port: {{ $door }}}
        periodSeconds: 5
      livenessProbe:
        httpGet: {path: /healthz/live, port: {{ $door }}}
        periodSeconds: 10
        timeoutSeconds: 5  # a slow node is no reason for a restart, which would make it slower still
        failureThreshold: 3
      {{- else }}
      ports:
        - {name: grpc, containerPort: 50051}
        - {name: metrics, containerPort: 9090}
        {{- /* The kubelet has no certificate: it asks health on a port of its own, which has nothing else. */}}
        {{- $probed := ternary 50052 50051 $root.Values.certificates.enabled }}
        {{- if $root.Values.certificates.enabled }}
        - {name: health, containerPort: 50052}
        {{- end }}
      startupProbe:
        grpc: {port: {{ $probed }}, service: startup}
        periodSeconds: 1
        failureThreshold: {{ $service.startupSeconds }}
      readinessProbe:
        grpc: {port: {{ $probed }}, service: ready}
        periodSeconds: 5
      livenessProbe:
        grpc: {port: {{ $probed }}, service: live}
        periodSeconds: 10
        timeoutSeconds: 5  # a slow node is no reason for a restart, which would make it slower still
        failureThreshold: 3
      {{- end }}
      lifecycle:
        preStop:
          exec:
            command: [python3, -c, "import time; time.sleep({{ $service.preStopSeconds }})"]
      resources:
        {{- toYaml $service.resources | nindent 8 }}
      securityContext:
        {{- include "fathom.containerSecurity" $root | nindent 8 }}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
        - {name: state, mountPath: /var/cache/fathom}
        - {name: identity, mountPath: /etc/fathom/identity, readOnly: true}
        {{- include "fathom.certificateMount" $root | nindent 8 }}
        {{- if and (eq $name "gateway") $root.Values.gateway.apiKeysSecret }}
        - {name: api-keys, mountPath: /etc/fathom/api-keys, readOnly: true}
        {{- end }}
        {{- if and $service.bus $root.Values.nats.tlsSecret }}
        - {name: nats-ca, mountPath: /etc/nats-ca, readOnly: true}
        {{- end }}
        {{- with $service.volume }}
        {{- if .enabled }}
        - {name: data, mountPath: {{ .mountPath }}}
        {{- end }}
        {{- end }}
        {{- with $service.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    {{- with $service.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    - name: tmp
      emptyDir:
        {{- if eq $name "sandbox" }}
        medium: Memory
        {{- end }}
        sizeLimit: {{ $service.scratch }}
    - name: state
      emptyDir: {sizeLimit: {{ $service.cache }}}
    - name: identity
      secret:
        secretName: {{ $root.Values.identity.existingSecret | quote }}
        # The sandbox runs hostile code: it verifies its callers and holds no key that signs.
        items: [{key: {{ ternary "public.pem" "signing.pem" (eq $name "sandbox") }}, path: keys.pem}]
    {{- include "fathom.certificateVolume" . | nindent 4 }}
    {{- if and (eq $name "gateway") $root.Values.gateway.apiKeysSecret }}
    - name: api-keys
      secret:
        secretName: {{ $root.Values.gateway.apiKeysSecret | quote }}
        items: [{key: keys.jsonl, path: keys.jsonl}]
    {{- end }}
    {{- if and $service.bus $root.Values.nats.tlsSecret }}
    - name: nats-ca
      secret:
        secretName: {{ $root.Values.nats.tlsSecret | quote }}
        items: [{key: ca.crt, path: ca.crt}]
    {{- end }}
    {{- with $service.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* Scheme of calls to a service: (list root name). Ray Serve's door speaks no TLS. */}}
{{- define "fathom.scheme" -}}
{{- $root := index . 0 -}}
{{- $serve := and (eq (index . 1) "policy") $root.Values.policyRayService.enabled -}}
{{- ternary "grpcs" "grpc" (and $root.Values.certificates.enabled (not $serve)) -}}
{{- end -}}

{{/* Seconds of a duration as Go writes them, of hours, minutes and seconds. */}}
{{- define "fathom.seconds" -}}
{{- $total := 0 -}}
{{- range regexFindAll "[0-9]+[hms]" . -1 -}}
{{- $unit := get (dict "h" 3600 "m" 60 "s" 1) (regexFind "[hms]" .) -}}
{{- $total = add $total (mul (regexFind "[0-9]+" . | int64) $unit) -}}
{{- end -}}
{{- $total -}}
{{- end -}}

{{/* Secret with the certificate of a component: (list root component). */}}
{{- define "fathom.certificateSecret" -}}
{{- $root := index . 0 -}}
{{- default (printf "%s-%s-tls" (include "fathom.name" $root) (index . 1)) (get $root.Values.certificates.secrets (index . 1)) -}}
{{- end -}}

{{- define "fathom.certificateMount" -}}
{{- if .Values.certificates.enabled }}
- {name: tls, mountPath: /etc/fathom/tls, readOnly: true}
{{- end }}
{{- end -}}

{{/* Not mounted file by file: the kubelet renews a folder when the Secret changes, and a single file never. */}}
{{- define "fathom.certificateVolume" -}}
{{- if (index . 0).Values.certificates.enabled }}
- name: tls
  secret:
    secretName: {{ include "fathom.certificateSecret" . | quote }}
    items: [{key: tls.crt, path: tls.crt}, {key: tls.key, path: tls.key}, {key: ca.crt, path: ca.crt}]
{{- end }}
{{- end -}}

{{/* ServiceAccount of a component: (list root component). */}}
{{- define "fathom.account" -}}
{{- if (index . 0).Values.serviceAccounts.create -}}
{{ include "fathom.name" (index . 0) }}-{{ index . 1 }}
{{- else -}}
default
{{- end -}}
{{- end -}}
