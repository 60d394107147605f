#!/bin/sh
# Runs the end-to-end test of alerts and dashboards; installs Prometheus and Alertmanager if they are absent.
set -eu
cd "$(dirname "$0")/../.."
sh alerts/tools.sh
exec go run ./test/e2e "$@"
