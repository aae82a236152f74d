# What the stages of the soak share; each sources it first.
# shellcheck shell=bash
set -euo pipefail

tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
stage=$(basename "$0")
cache=${TARE_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/tare}/soak
mkdir -p "$cache" # stages lock files in it before anything else is there

say() { printf '%s: %s\n' "$stage" "$*"; }
fail() { say "$*" && exit 1; }

# later COMMAND...: what is to be done at the end, whatever ends the stage; the
# last one first.
later() { ends+=("$(printf '%q ' "$@")"); }
ends=()
finish() {
	local status=$? i
	trap '' INT TERM
	for ((i = ${#ends[@]} - 1; i >= 0; i--)); do eval "${ends[i]}" || true; done
	exit $status
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# need PROGRAM PACKAGE...: what a stage cannot do without. Without it the stage
# has failed: one that skipped would say that all is well.
need() {
	! PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null || return 0
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || fail "needs $1 (Debian: ${*:2})"
	say "installing ${*:2}"
	"$tree"/scripts/install-packages "${@:2}" >/dev/null
}

need_root() { [ "$(id -u)" = 0 ] || fail "needs root"; }

# Data that only this stage needs, on the disk that the cache is on.
work_directory() {
	work=$(mktemp -d "$cache/work.XXXXXX")
	later rm -rf --one-file-system "$work"
}

# engine NAME...: builds engines into the cache.
engines() {
	need go golang-go
	(
		flock 9
		"$tree/scripts/build-engines" "$cache/engines" "$@" 9>&-
	) 9>"$cache/engines.lock"
}

# program: tare as it is released, in $work, where it stays the same until the end.
program() {
	need go golang-go
	need make make
	(
		flock 9
		make --no-print-directory --silent -C "$tree" build 9>&-
		cp "$tree/bin/tare" "$work/"
	) 9>"$cache/program.lock"
}

# suites PACKAGE...: tests of real engines, as programs in $work/tests.
suites() {
	need go golang-go
	mkdir "$work/tests"
	(cd "$tree" && CGO_ENABLED=0 go test -c -o "$work/tests/" "${@/#/./internal/}")
	cp "$tree/internal/image/agentbin/$(go env GOARCH)/tare-agent" "$work/tests/agent"
}

# A Debian 13 with its engines, which is the root of machines of two kinds: of
# namespaces on this kernel, and virtual ones.
packages=(
	docker.io docker-cli docker-buildx containerd podman crun runc # the engines
	iptables nftables iproute2 containernetworking-plugins    # their networks
	netavark aardvark-dns passt slirp4netns rootlesskit uidmap # those of ordinary users
	fuse-overlayfs dbus-user-session
	libdbus-1-3 libelf1t64 libseccomp2 # libraries of youki
	ca-certificates curl fio jq nginx-light procps
	linux-image-cloud-amd64 systemd-sysv udev dbus libpam-systemd kmod # for the virtual machine
)

make_debian() { # DIR
	local dir=$1 mirror
	need mmdebstrap mmdebstrap debian-archive-keyring
	need mkfs.ext4 e2fsprogs
	say "making a Debian 13 with its engines: about two minutes"
	rm -rf "$dir.new"
	mkdir "$dir.new"
	# The mirror that this machine uses, where it is a Debian.
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | head -n 1)
	# The virtual machine runs what it finds on the disk with the label soak.
	cat >"$dir.new/soak.service" <<-'U'
	[Unit]
	After=docker.service containerd.service
	[Service]
	Type=exec
	Delegate=yes
	KillMode=process
	TasksMax=infinity
	ExecStart=/bin/sh -c 'stty -F /dev/ttyS1 raw && mkdir -p /soak && mount -L soak /soak && exec /soak/boot'
	StandardOutput=file:/dev/ttyS1
	StandardError=inherit
	[Install]
	WantedBy=multi-user.target
	U
	mmdebstrap --quiet --variant=minbase --include="$(IFS=,; printf %s "${packages[*]}")" \
		--customize-hook="copy-in '$dir.new/soak.service' /etc/systemd/system" \
		--customize-hook='chroot "$1" systemctl --quiet enable soak.service' \
		--customize-hook='chroot "$1" systemctl --quiet mask nginx.service' \
		--customize-hook='chroot "$1" useradd --create-home --shell /bin/bash ordinary' \
		trixie "$dir.new/root" ${mirror:+"$mirror"} >&2
	mkfs.ext4 -q -d "$dir.new/root" "$dir.new/disk" 8G
	mv "$dir.new" "$dir"
}

# debian: the Debian 13 in $debian, made again whenever what makes it changes.
debian() {
	debian=$cache/debian13-$(declare -f make_debian | cat - <(printf '%s ' "${packages[@]}") | sha256sum | cut -c 1-12)
	[ ! -d "$debian" ] || return 0
	(
		flock 9
		[ -d "$debian" ] || { rm -rf "$cache"/debian13-* && make_debian "$debian" 9>&-; }
	) 9>"$cache/debian13.lock"
}

# machine COMMAND...: a machine of namespaces over that Debian 13: it has mounts,
# processes, a network with a default route, and control groups of its own.
# COMMAND runs there as its first process; when that ends, or this script does,
# be it by SIGKILL, all that runs there is ended by the kernel. The tree is at
# /soak/tare, $work at /soak/work and built engines at /soak/engines.
machine() {
	need unshare util-linux
	need ip iproute2
	need iptables iptables # loads modules of the kernel that nobody can load from inside
	mkdir -p "$work"/{root,upper,overlay,data} "$cache/engines"
	iptables -w -t nat -L >/dev/null
	setpriv --pdeathsig KILL unshare --mount --net --pid --ipc --uts --fork --kill-child \
		bash "$tree/scripts/soak/machine" "$debian/root" "$work" "$cache/engines" "$stage-$$" "$@" &
	later remove_groups "$stage-$$"
	later end $!
	wait $!
}

# end PID: ends a process that this script started, whatever it waits for.
end() { kill -KILL "$1" 2>/dev/null && wait "$1" 2>/dev/null || true; }

# remove_groups NAME: the control groups of a machine, once its processes have gone.
remove_groups() {
	local top
	while read -r top; do
		[ ! -d "$top/$1" ] || for _ in $(seq 50); do
			find "$top/$1" -depth -type d -exec rmdir {} + 2>/dev/null && break || sleep 0.1
		done
	done < <(awk '$3 ~ /^cgroup2?$/ { print $2 }' /proc/mounts)
}
