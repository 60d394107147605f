#!/bin/sh
# Runs the end-to-end test of alerts and dashboards; installs what is absent: Prometheus, Alertmanager, and for real Flink a JDK and pip.
set -eu
cd "$(dirname "$0")/../.."
sh alerts/tools.sh
case " $* " in
*" --replayed "*) ;;
*)
	missing=
	command -v javac >/dev/null || missing=openjdk-17-jdk-headless
	python3 -m pip --version >/dev/null 2>&1 || missing="$missing python3-pip"
	if [ -n "$missing" ]; then
		apt-get update -qq
		# shellcheck disable=SC2086 # a list
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
	fi
	;;
esac
exec go run ./test/e2e "$@"
