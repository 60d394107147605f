#!/bin/sh
# Checks the rules, their unit tests and the Alertmanager example with Prometheus' own tools, and installs those if they are absent.
set -eu
cd "$(dirname "$0")"
sh tools.sh
promtool check rules ./*.rules.yaml
promtool test rules tests/*.test.yaml

amtool check-config alertmanager.example.yml
# route RECEIVER LABELS...: alerts with these labels go to this receiver.
route() {
	receiver=$1
	shift
	got=$(amtool config routes test --config.file=alertmanager.example.yml "$@")
	if [ "$got" != "$receiver" ]; then
		echo "alerts with $* go to $got, not to $receiver" >&2
		exit 1
	fi
	echo "$* -> $receiver"
}
route page severity=critical alertname=FlinkLineageDuplicateExecution job_name=orders
route page severity=critical alertname=FlinkReporterSubtaskTwice job_name=orders
route tickets severity=warning alertname=FlinkLineageOrphanExecution job_name=orders
route nobody severity=info alertname=FlinkLineageJobFailover job_name=orders
route tickets severity=critical alertname=SomethingElse
