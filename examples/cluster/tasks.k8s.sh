#!/bin/sh
# Writes train/ with the Job of tasks.k8s.yaml: sh tasks.k8s.sh, on a machine with kubectl that mounts the volume at /data too,
# in that directory. Each step of tasks is a Job of its own. One that has failed is kept, with its pods and their messages.
set -eu
plan=train.tfrplan
tfr-sql "SELECT * FROM 'events/*.parquet'" --out train/ --shuffle --shards 256 --partitions 64 --plan "$plan"

# A query may have more or fewer tasks than partitions: UNION ALL has those of both sides.
tasks=$(sed -n '1s/.*"tasks":\([0-9]*\),.*/\1/p' "$plan")

# Runs all tasks as a Job of this name, until each has succeeded.
run_tasks() {
    sed "s/name: train-sort/name: $1/; s/completions: .*/completions: $tasks/" "$(dirname "$0")/tasks.k8s.yaml" |
        kubectl create -f -
    until kubectl wait --for=condition=complete --timeout=60s "job/$1"; do
        failed=$(kubectl get job "$1" -o 'jsonpath={.status.conditions[?(@.type=="Failed")].status}')
        if [ "$failed" = True ]; then
            echo "the Job $1 has failed: kubectl describe job $1" >&2
            exit 1
        fi
    done
    kubectl delete job "$1"
}

# Runs a command again while it ends with 75, which means that trying again may help, or is killed.
repeated() {
    for wait in 1m 5m 30m; do
        code=0
        "$@" || code=$?
        if [ $code -ne 75 ] && [ $code -le 128 ]; then
            return $code
        fi
        sleep $wait
    done
    "$@"
}

run_tasks train-sort
repeated tfr-sql cut "$plan"
run_tasks train-write
repeated tfr-sql finish "$plan"
