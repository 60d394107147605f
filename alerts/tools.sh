#!/bin/sh
# Installs Prometheus and Alertmanager with promtool and amtool, from Debian's packages, if they are absent.
set -eu
if command -v prometheus >/dev/null && command -v prometheus-alertmanager >/dev/null && command -v promtool >/dev/null && command -v amtool >/dev/null; then
	exit 0
fi
apt-get update -qq
# Without starting the services that come with the tools.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod +x "$policy"
	trap 'rm -f "$policy"' EXIT
fi
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends prometheus prometheus-alertmanager
