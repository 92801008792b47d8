#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# From Linux 7.2 on, task_struct.on_cpu is one byte.
#
# One would guess: on_cpu is an int, as it was since 2.6; whether a task runs
# is read as 4 bytes at its offset.
#
# What is so: in Debian's 7.1.13 it is an int of 4 bytes.  In 7.2.12 and 7.3.4
# it is one byte.
#
# Why it matters: debuggers and introspection that read a kernel's memory find
# by on_cpu which task runs.  Who takes the offset from BTF and the size for
# granted reads three bytes that belong to other fields; who checks for the
# size 4 finds no running task.
#
# How to cope: take the size from BTF as well as the offset, and read as many
# bytes.
#
# Takes a minute; fetches 45 MB.

. "$(dirname "$0")/lib.sh" || exit
need python3 zstd
from trixie
get_all "$DIR/tools" bpftool=7.5.0+6.12.117-1
within "$DIR/tools" usr/sbin/bpftool version >"$DIR/version"
head -n 1 "$DIR/version"
from trixie-backports
for pair in 7.1.13:4 7.2.12:1 7.3.4:1; do
    version=${pair%:*}
    kernel "$version" \
        "linux-binary-$version+deb13-cloud-amd64=$version-1~bpo13+1"
    python3 "$HERE/kernel_image.py" "$DIR/$version.vmlinuz" "$DIR/vmlinux"
    within "$DIR/tools" usr/sbin/bpftool -j btf dump file "$DIR/vmlinux" \
        >"$DIR/btf"
    found=$(python3 - "$DIR/btf" <<'EOF'
import json
import sys

with open(sys.argv[1]) as file:
    types = {t["id"]: t for t in json.load(file)["types"]}
task, = (t for t in types.values()
         if t["kind"] == "STRUCT" and t["name"] == "task_struct")
at = sorted(task["members"], key=lambda m: m["bits_offset"])
index, = (i for i, m in enumerate(at) if m["name"] == "on_cpu")
kind = types[at[index]["type_id"]]
while "size" not in kind:
    kind = types[kind["type_id"]]
print(kind["size"], at[index]["bits_offset"] // 8, at[index + 1]["name"],
      at[index + 1]["bits_offset"] // 8, kind["name"])
EOF
    )
    read -r size offset next next_offset type <<<"$found"
    say "Linux $version: on_cpu has size $size ($type) at offset $offset;" \
        "$next follows at $next_offset"
    [ "$size" = "${pair#*:}" ] ||
        changed "on_cpu of Linux $version had ${pair#*:} bytes, now $size"
done
say "SO IT IS: on_cpu has 4 bytes up to 7.1 and 1 byte from 7.2"
