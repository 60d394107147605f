#!/bin/sh
# Checks the examples: Prometheus' configurations by promtool, the unit by systemd-analyze, and the rest by the Go module test/examples.
set -eu
cd "$(dirname "$0")"
sh ../alerts/tools.sh
promtool check config prometheus.yml
# Its rules lie elsewhere until they are mounted.
promtool check config --syntax-only compose/prometheus.yml
if command -v systemd-analyze >/dev/null; then
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' EXIT
	# The program need not be installed here.
	sed 's#^ExecStart=/usr/local/bin/flink-lineage-exporter#ExecStart=/bin/true#' systemd/flink-lineage-exporter.service >"$dir/flink-lineage-exporter.service"
	systemd-analyze verify "$dir/flink-lineage-exporter.service"
	echo "systemd/flink-lineage-exporter.service is valid"
fi
cd ../test/examples
exec go test "$@" ./...
