#!/usr/bin/env bash
# Gives each viewer of a Glassline relay a class of its own in the kernel's traffic control: together they take no more
# than LINE, each gets RATE before anybody gets more, and nobody gets more than CEIL.
#
#   tc-per-viewer.sh DEVICE LINE RATE CEIL [FIRST-LAST]    classes for the marks FIRST to LAST (default 1000-1999)
#   tc-per-viewer.sh DEVICE clean                          takes them away again
#
#   tc-per-viewer.sh eth0 900mbit 6mbit 20mbit
#
# Rates are tc's: 6mbit, 500kbit. The relay's configuration has the same marks: [viewer] mark_pool =
# "1000-1999". What bears none of them passes unshaped. Run as root; replaces the device's root queueing discipline.
# `tc -s class show dev DEVICE` tells what each viewer has had; the class of mark M is 1: and M - FIRST + 16 in hex.
set -euo pipefail

usage() {
  sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2
  exit 2
}

# Classes from 1:10 on; the numbers below are left for the device's owner.
readonly OFFSET=16

clean() { tc qdisc del dev "$1" root 2>/dev/null || true; }

class_of() { printf '1:%x' $(($1 - first + OFFSET)); }

# A filter for each mark, which the kernel finds by a hash.
by_firewall_mark() {
  local mark
  tc filter add dev "$device" parent 1: protocol all prio 1 handle "$first" fw flowid "$(class_of "$first")" 2>/dev/null ||
    return 1
  for ((mark = first + 1; mark <= last; mark++)); do
    echo "filter add dev $device parent 1: protocol all prio 1 handle $mark fw flowid $(class_of "$mark")"
  done | tc -batch -
}

# The same for kernels without that classifier (cls_fw), as one program: the class is mark - first + OFFSET in 1:, and
# there is none for other marks. Classic BPF, linux/filter.h; 4294963220 is where it finds a packet's mark.
by_program() {
  local less=$(((first - OFFSET) & 0xffffffff))
  tc filter add dev "$device" parent 1: protocol all prio 1 bpf bytecode \
    "7,32 0 0 4294963220,53 0 4 $first,37 3 0 $last,20 0 0 $less,68 0 0 65536,22 0 0 0,6 0 0 0"
}

device=${1:-}
[[ -n $device ]] || usage
if [[ ${2:-} == clean && $# == 2 ]]; then
  clean "$device"
  exit
fi
(($# == 4 || $# == 5)) || usage
line=$2 rate=$3 ceil=$4
[[ ${5:-1000-1999} =~ ^([0-9]+)-([0-9]+)$ ]] || usage
first=$((10#${BASH_REMATCH[1]})) last=$((10#${BASH_REMATCH[2]}))
if ((first < 1 || first > last || last > 4294967295 || last - first >= 65000)); then
  echo "$0: marks from 1 to 4294967295, the lower one first, at most 65000 of them" >&2
  exit 2
fi

clean "$device"
tc qdisc add dev "$device" root handle 1: htb
# What lends to all others; a class without one above it could not get more than its rate.
tc class add dev "$device" parent 1: classid 1:1 htb rate "$line" quantum 60000
for ((mark = first; mark <= last; mark++)); do
  echo "class add dev $device parent 1:1 classid $(class_of "$mark") htb rate $rate ceil $ceil quantum 3028"
done | tc -batch -
by_firewall_mark || by_program
echo "$device: $((last - first + 1)) classes, $(class_of "$first") to $(class_of "$last"), $rate each, $ceil at most"
