# What a stage does inside its machine; sourced there after lib.sh.
# shellcheck shell=bash

# tare, run by root, or by whom the command in $as makes it run.
tare() { "${as[@]}" /soak/work/tare "$@"; }
as=()
export NO_COLOR=1

# begin NAME COMMAND...: starts a daemon, which ends with the machine.
begin() {
	"${@:2}" >"/var/log/$1.log" 2>&1 </dev/null &
	disown $!
}

# await NAME COMMAND...: waits until the command succeeds.
await() {
	for _ in $(seq "${patience:-60}"); do
		! "${@:2}" >/dev/null 2>&1 || return 0
		sleep 1
	done
	say "$1 does not answer; its log ends with:"
	tail -n 20 "/var/log/$1.log" || true
	return 1
}

# start_containerd [ARGUMENT...]: with a network for pods. Where the kernel
# withholds CAP_SYS_RESOURCE, pods start only if they may keep the daemon's score.
start_containerd() {
	mkdir -p /etc/cni/net.d
	cat >/etc/cni/net.d/10-soak.conflist <<-'C'
	{"cniVersion": "0.4.0", "name": "soak", "plugins": [
	  {"type": "bridge", "bridge": "soak0", "isGateway": true,
	    "ipam": {"type": "host-local", "ranges": [[{"subnet": "198.18.1.0/24"}]]}},
	  {"type": "portmap", "capabilities": {"portMappings": true}},
	  {"type": "firewall"}
	]}
	C
	cat >/etc/soak-containerd.toml <<-'C'
	version = 2
	[plugins."io.containerd.grpc.v1.cri"]
	  restrict_oom_score_adj = true
	  disable_apparmor = true
	  [plugins."io.containerd.grpc.v1.cri".cni]
	    bin_dir = "/usr/lib/cni"
	    conf_dir = "/etc/cni/net.d"
	C
	begin containerd containerd --config /etc/soak-containerd.toml "$@"
	await containerd ctr --connect-timeout 1s version
}

start_docker() {
	begin dockerd dockerd "$@"
	await dockerd docker version
}

# conformance ENGINES PACKAGE...: the suites, of which no engine listed may be missing,
# without the tests that match $skip, and in their short form if $short is set.
conformance() {
	local engines=$1 package name log
	local options=("-test.skip=${skip:-^$}" -test.v -test.shuffle=on -test.timeout=20m ${short:+-test.short})
	shift
	for package in "$@"; do
		name=${package##*/}
		log=/tmp/$name.log
		if ! (cd "/soak/tare/internal/$package" && TARE_TEST_AGENT=/soak/work/tests/agent \
			TARE_TEST_ENGINES=$engines "/soak/work/tests/$name.test" "${options[@]}") >"$log" 2>&1; then
			failed_tests "$log"
			problem "conformance suite of $name"
		fi
		say "suite of $name: $(counted PASS "$log") passed, $(counted SKIP "$log") skipped, $(counted FAIL "$log") failed"
		conforming=$((conforming + 1))
	done
}
conforming=0
counted() { grep -c -- "--- $1: " "$2" || true; }

# failed_tests LOG: what each test that failed has said, and a panic.
failed_tests() {
	awk '
		/^=== (RUN|CONT|NAME|PAUSE)/ { name = $3; next }
		/^ *--- FAIL: / { printf "%s\n%s", $0, text[$3]; next }
		/^ *--- / { next }
		{ text[name] = text[name] $0 "\n" }
		/^panic: / { panicked = name }
		END { if (panicked) printf "%s", text[panicked] }' "$1" | head -n 200
}

# measure ENGINES ARGUMENT...: one block of an experiment, in which every cell
# must have worked but those that $lacks names: these must be refused.
measure() {
	local engines=$1 began=$SECONDS out=/tmp/measure.json lacking
	shift
	ran+=("$1")
	if ! "${run:-run_once}" "$engines" "$@" >"$out" 2>/tmp/measure.err; then
		grep -vE '^(tare: stops|block )' /tmp/measure.err || true
		jq -c '.failures[]?, (.warnings[]?.text | select(test("failed")))' "$out" || cat "$out"
		problem "tare run $* --engine $engines"
		return 0
	fi
	lacking=$(jq -r '[.metrics[].conditions[].rows[] | select(.unsupported) | .cell] | unique | join(",")' "$out")
	[ "$lacking" = "${lacks-}" ] ||
		problem "tare run $* --engine $engines: not supported: ${lacking:-nothing}; expected: ${lacks:-nothing}"
	say "$* of $engines: $((SECONDS - began)) s"
}
ran=()

# Times in which something happens even on a machine that is busy.
survey=(--param disk.time=1s --param net-throughput.time=1s)
storages=(--size 8MiB --param time=1s --param patterns=randread,fsync --storage layer,volume,bind,tmpfs)

# run_once ENGINES ARGUMENT...: tare run in its shortest form.
run_once() {
	tare run --json --engine "$1" --budget off --blocks 1 --warmup 0 --precision off --no-control --washout off "${@:2}"
}

# problem TEXT: something failed; the stage goes on, and fails at its end.
problem() {
	say "FAILED: $*"
	problems+=("$*")
}
problems=()

# What engines and systemd make for themselves when first used, and keep.
engines_own='^> group .*/(docker|(docker/)?buildkit|k8s\.io|libpod_parent|conmon|[^/]*\.(slice|service|socket|mount))$'
engines_own+='|^> interface (soak0|podman0)$|^> process dbus-daemon$'
engines_own+='|^> mount (/run/netns|/run/docker/netns/default|/run/.*/null-netns)$'

# inventory lists what engines and the kernel have, one thing in each line.
inventory() {
	local n
	objects docker
	objects podman
	for n in $(ctr namespaces list --quiet); do
		{ ctr -n "$n" containers list -q && ctr -n "$n" images list -q && ctr -n "$n" content list -q &&
			ctr -n "$n" leases list -q && ctr -n "$n" snapshots list | tail -n +2 | tr -s ' '; } 2>/dev/null | sed "s|^|containerd $n |"
	done
	if command -v buildctl >/dev/null; then
		buildctl du --format '{{range .}}{{.ID}} {{.Description}}{{"\n"}}{{end}}' | sed '/./s/^/buildkit /'
		buildctl debug histories --format '{{.Record.Ref}}' | sed '/./s/^/build /'
	fi
	ip -o link | awk -F': ' '{ print "interface", $2 }'
	find /sys/fs/cgroup -mindepth 1 -type d | sed 's/^/group /'
	find /var/lib/tare -mindepth 2 2>/dev/null || true
	awk '{ print "mount", $5 }' /proc/self/mountinfo
	# The kernel's own processes, and those that have ended, have no memory.
	ps -e -o vsz=,comm= | awk '$1 > 0 && $2 !~ /^(ps|bash|awk|sort|sleep)$/ { print "process", $2 }'
}

# objects COMMAND...: what a docker or podman has.
objects() {
	local -x PODMAN_IGNORE_CGROUPSV1_WARNING=1
	{ "$@" ps --all --quiet && "$@" images --all --quiet && "$@" volume ls --quiet &&
		"$@" network ls --format '{{.Name}}'; } | sed "s|^|$* |"
}

# collect has containerd collect now what was removed before, such as by 'tare doctor': otherwise it does so some
# time later. A lease that is removed so waits for that.
collect() {
	local namespace
	namespace=$(ctr namespaces list --quiet | head -n 1)
	[ -z "$namespace" ] || ctr -n "$namespace" leases delete --sync "$(ctr -n "$namespace" leases create)" >/dev/null
}

# remember: lists what there is into /tmp/before, once that stays as it is.
remember() {
	collect
	inventory | sort >/tmp/before
	for _ in $(seq 10); do
		sleep 2
		inventory | sort >/tmp/after
		! cmp -s /tmp/before /tmp/after || return 0
		mv /tmp/after /tmp/before
	done
	problem "what there is keeps changing before anything is measured"
}

# nothing_left COMMAND: nothing of tare's, once what ends by itself has ended,
# of what COMMAND lists and has listed into /tmp/before.
nothing_left() {
	for _ in $(seq 5); do
		"$1" | sort >/tmp/after
		diff /tmp/before /tmp/after | grep '^[<>]' | grep -vE "$engines_own" >/tmp/left || true
		[ -s /tmp/left ] || return 0
		sleep 2
	done
	cat /tmp/left
	problem "something is left (>), or has gone (<)"
}

# nothing_left_of_suites: they pull from registries that do wrong. After such a pull
# docker keeps what it has fetched for a day, by a lease, and the CRI's server the
# name of an image that it denies to have, so that nobody can remove it by CRI.
nothing_left_of_suites() {
	engines_own+='|^> containerd moby ([0-9]+-....|sha256:.*)$'
	engines_own+='|^> containerd k8s.io (127.0.0.1:[0-9]+/tare-test-.*|sha256:.*)$'
	nothing_left inventory
}

# experiments_run counts the experiments that were measured.
experiments_run() { printf '%s\n' "${ran[@]}" | sort -u | wc -l; }

# clean: tare says that there is nothing to clean.
clean() {
	local said
	said=$(tare clean --dry-run 2>&1)
	[[ $said == *"nothing to clean"* ]] || problem "tare clean --dry-run: $said"
}

# versions lists the engines that are here, as tare sees them.
versions() {
	tare doctor --json |
		jq -r '[.engines[] | select(.usable).info | select(.version != "") | "\(.name) \(.version)"] | join(", ")'
}

# close: how the stage ends.
close() {
	if [ "${#problems[@]}" -gt 0 ]; then
		say "${#problems[@]} failed:"
		printf '  %s\n' "${problems[@]}"
		exit 1
	fi
}
