{{/* Environment of a training pod: the same services as production calls. Secrets first: $(NAME) finds earlier ones. */}}
{{- define "fathom.trainerEnv" -}}
{{- include "fathom.secretEnv" (list . true true) | trimPrefix "\n" }}
- name: FATHOM_RUNTIME_BUS_URL
  value: {{ include "fathom.busUrl" . | quote }}
- name: FATHOM_RUNTIME_EVENT_BYTES
  value: {{ int64 .Values.nats.eventBytes | quote }}
- name: FATHOM_RUNTIME_STORE_URL
  value: {{ include "fathom.storeUrl" . | quote }}
- name: FATHOM_RUNTIME_ENDPOINTS
  value: {{ include "fathom.trainerEndpoints" . | quote }}
- name: FATHOM_RUNTIME_IDENTITY_FILE
  value: /etc/fathom/identity/keys.pem
{{- if .Values.certificates.enabled }}
- name: FATHOM_RUNTIME_TLS_DIR
  value: /etc/fathom/tls
{{- end }}
{{- end -}}

{{- define "fathom.trainerEndpoints" -}}
{{- $prefix := include "fathom.name" . -}}
{{- $found := dict -}}
{{- range $peer := list "planner" "policy" "reward" "datafetch" -}}
{{- $_ := set $found $peer (printf "%s://%s-%s:50051" (include "fathom.scheme" (list $ $peer)) $prefix $peer) -}}
{{- end -}}
{{- $_ := set $found "policy" (printf "%s://%s-policy:%s" (include "fathom.scheme" (list . "policy")) $prefix (include "fathom.port" (list . "policy"))) -}}
{{- $found | toJson -}}
{{- end -}}

{{/* Pod template of Ray: (dict root component container resources gpus env). */}}
{{- define "fathom.rayPod" -}}
{{- $root := .root -}}
metadata:
  labels:
    {{- include "fathom.labels" (list $root .component) | nindent 4 }}
spec:
  serviceAccountName: {{ include "fathom.account" (list $root (.account | default .component)) }}
  automountServiceAccountToken: {{ .token | default false }}
  enableServiceLinks: false
  restartPolicy: Never
  terminationGracePeriodSeconds: 60
  securityContext:
    {{- include "fathom.podSecurity" $root | nindent 4 }}
  {{- include "fathom.placement" (list $root .component (.placement | default dict)) | nindent 2 }}
  containers:
    - name: {{ .container }}
      image: {{ include "fathom.image" (list $root (ternary "policy-gpu" "trainer" (eq .component "policy"))) | quote }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      env:
        {{- .env | nindent 8 }}
      {{- if eq .container "ray-head" }}
      ports:
        - {name: gcs, containerPort: 6379}
        - {name: dashboard, containerPort: 8265}
        - {name: client, containerPort: 10001}
        - {name: serve, containerPort: 8000}
        - {name: metrics, containerPort: 8080}
      {{- end }}
      {{- with .ports }}
      ports:
        {{- . | nindent 8 }}
      {{- end }}
      {{- with .probes }}
      {{- . | nindent 6 }}
      {{- end }}
      lifecycle:
        preStop:
          exec:
            command: [ray, stop]
      resources:
        {{- $resources := deepCopy .resources }}
        {{- if .gpus }}
        {{- $_ := set $resources.limits "nvidia.com/gpu" .gpus }}
        {{- end }}
        {{- toYaml $resources | nindent 8 }}
      securityContext:
        {{- include "fathom.containerSecurity" $root | nindent 8 }}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
        - {name: state, mountPath: /var/cache/fathom}
        - {name: shm, mountPath: /dev/shm}
        - {name: identity, mountPath: /etc/fathom/identity, readOnly: true}
        {{- include "fathom.certificateMount" $root | nindent 8 }}
        {{- if $root.Values.nats.tlsSecret }}
        - {name: nats-ca, mountPath: /etc/nats-ca, readOnly: true}
        {{- end }}
  volumes:
    - name: tmp
      emptyDir: {sizeLimit: 20Gi}
    - name: state
      emptyDir: {sizeLimit: 50Gi}
    - name: shm
      emptyDir: {medium: Memory, sizeLimit: 8Gi}
    - name: identity
      secret:
        secretName: {{ $root.Values.identity.existingSecret | quote }}
        items: [{key: signing.pem, path: keys.pem}]
    {{- include "fathom.certificateVolume" (list $root .component) | nindent 4 }}
    {{- with $root.Values.nats.tlsSecret }}
    - name: nats-ca
      secret:
        secretName: {{ . | quote }}
        items: [{key: ca.crt, path: ca.crt}]
    {{- end }}
{{- end -}}

{{/* "true" when the workers of a training come and go: (list root job), job as in training.jobs. */}}
{{- define "fathom.isElastic" -}}
{{- $job := mergeOverwrite (deepCopy (index . 0).Values.training.job) (deepCopy (index . 1)) -}}
{{- if gt (int $job.maxWorkers) (int $job.workers) }}true{{ end -}}
{{- end -}}

{{/* "true" when those of any training of the release do. */}}
{{- define "fathom.hasElastic" -}}
{{- $found := include "fathom.isElastic" (list . dict) -}}
{{- range .Values.training.jobs }}{{ $found = $found | default (include "fathom.isElastic" (list $ .)) }}{{ end -}}
{{- $found -}}
{{- end -}}

{{/* Ray's autoscaler beside a head: (list root seconds), seconds after which a worker without work goes. */}}
{{- define "fathom.rayAutoscaler" -}}
enableInTreeAutoscaling: true
autoscalerOptions:
  version: v2
  idleTimeoutSeconds: {{ index . 1 }}
  resources:
    requests: {cpu: 100m, memory: 256Mi}
    limits: {cpu: 500m, memory: 512Mi}
  securityContext:
    {{- include "fathom.containerSecurity" (index . 0) | nindent 4 }}
  volumeMounts:
    - {name: tmp, mountPath: /tmp}
{{- end -}}

{{/* Refuses what an elastic training cannot have: (list root job). */}}
{{- define "fathom.checkElastic" -}}
{{- $root := index . 0 -}}{{- $job := index . 1 -}}
{{- if and $job.maxWorkers (lt (int $job.maxWorkers) (int $job.workers)) }}
{{- fail (printf "training.job.maxWorkers is %d, less than the %d of workers; 0 keeps their number" (int $job.maxWorkers) (int $job.workers)) }}
{{- end }}
{{- if include "fathom.isElastic" (list $root $job) }}
{{- if $root.Values.training.queue }}
{{- fail "training.job.maxWorkers: Kueue admits a training with all its workers or not at all. Set it to 0, or training.queue to \"\"" }}
{{- end }}
{{- if and $root.Values.networkPolicy.enabled (not $root.Values.networkPolicy.apiServer) }}
{{- fail "training.job.maxWorkers: networkPolicy.apiServer is needed, where Ray's autoscaler finds the API server" }}
{{- end }}
{{- end }}
{{- end -}}

{{/* A RayJob: (dict root name job), job = {entrypoint, workers, gpus, resources, placement, deadlineSeconds, ttlSeconds}. */}}
{{- define "fathom.rayjob" -}}
{{- $root := .root -}}{{- $job := mergeOverwrite (deepCopy $root.Values.training.job) (deepCopy .job) -}}
{{- $env := include "fathom.trainerEnv" $root -}}
{{- include "fathom.checkElastic" (list $root $job) -}}
{{- $isElastic := include "fathom.isElastic" (list $root $job) -}}
apiVersion: ray.io/v1
kind: RayJob
metadata:
  name: {{ .name }}
  labels:
    {{- include "fathom.labels" (list $root "trainer") | nindent 4 }}
    {{- with $root.Values.training.queue }}
    kueue.x-k8s.io/queue-name: {{ . | quote }}
    {{- end }}
    {{- with $job.priorityClass }}
    kueue.x-k8s.io/priority-class: {{ . | quote }}
    {{- end }}
spec:
  entrypoint: {{ $job.entrypoint | quote }}
  submissionMode: K8sJobMode
  # The Ray cluster, with its GPUs, goes as soon as the job has ended: what is worth keeping is in the object store.
  {{- if $root.Values.training.queue }}
  suspend: true
  # Kueue takes no rules of deletion; the seconds are those of the cluster, and the job stays.
  shutdownAfterJobFinishes: true
  ttlSecondsAfterFinished: 0
  {{- else }}
  deletionStrategy:
    deletionRules:
      {{- range $end := list (list "jobStatus" "SUCCEEDED") (list "jobStatus" "FAILED") (list "jobDeploymentStatus" "Failed") }}
      - {policy: DeleteCluster, condition: { {{- index $end 0 }}: {{ index $end 1 }}, ttlSeconds: 0}}
      - {policy: DeleteSelf, condition: { {{- index $end 0 }}: {{ index $end 1 }}, ttlSeconds: {{ $job.ttlSeconds }}}}
      {{- end }}
  {{- end }}
  activeDeadlineSeconds: {{ $job.deadlineSeconds }}
  preRunningDeadlineSeconds: {{ $job.startSeconds }}
  # A retry is a new cluster; the trainer goes on from its last checkpoint.
  backoffLimit: {{ $job.retries }}
  submitterPodTemplate:
    metadata:
      labels:
        {{- include "fathom.labels" (list $root "trainer") | nindent 8 }}
    spec:
      serviceAccountName: {{ include "fathom.account" (list $root "trainer") }}
      automountServiceAccountToken: false
      restartPolicy: Never
      securityContext:
        {{- include "fathom.podSecurity" $root | nindent 8 }}
      {{- include "fathom.placement" (list $root "trainer" $job.headPlacement) | nindent 6 }}
      containers:
        - name: ray-job-submitter
          image: {{ include "fathom.image" (list $root "trainer") | quote }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          resources:
            requests: {cpu: 100m, memory: 256Mi}
            limits: {memory: 1Gi}
          securityContext:
            {{- include "fathom.containerSecurity" $root | nindent 12 }}
          volumeMounts:
            - {name: tmp, mountPath: /tmp}
      volumes:
        - name: tmp
          emptyDir: {sizeLimit: 1Gi}
  rayClusterSpec:
    rayVersion: {{ $root.Values.training.rayVersion | quote }}
    {{- if $isElastic }}
    {{- include "fathom.rayAutoscaler" (list $root $job.idleSeconds) | nindent 4 }}
    {{- end }}
    headGroupSpec:
      rayStartParams: {dashboard-host: "0.0.0.0", num-cpus: {{ $job.headCpus | quote }}}
      template:
        {{- include "fathom.rayPod" (dict "root" $root "component" "trainer" "container" "ray-head" "resources" $job.headResources "gpus" 0 "env" $env "placement" $job.headPlacement "token" (eq $isElastic "true") "account" (ternary "autoscaler" "" (eq $isElastic "true"))) | nindent 8 }}
    {{- if or $job.workers $isElastic }}
    workerGroupSpecs:
      - groupName: learners
        replicas: {{ $job.workers }}
        minReplicas: {{ $job.workers }}
        maxReplicas: {{ max $job.workers $job.maxWorkers }}
        rayStartParams: {}
        template:
          {{- include "fathom.rayPod" (dict "root" $root "component" "trainer" "container" "ray-worker" "resources" $job.resources "gpus" $job.gpus "env" $env "placement" $job.placement) | nindent 10 }}
    {{- end }}
{{- end -}}
