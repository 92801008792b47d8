# SPDX-License-Identifier: GPL-2.0-or-later
#
# To be read by a shell: starts a guest that runs a program whenever it is told
# so, and traces it.

# shellcheck source=tests/rig/linux/guest-talk.sh
. /bin/guest-talk

# start_runs OPTION...: starts the guest, and waits until it has begun
start_runs() {
    guest-make <<'TEST'
#!/bin/sh
n=0
grep -E ' (__entry_text_(start|end)|ret_from_fork_asm)$' /proc/kallsyms
echo "guest: begins"
while read -r word; do
    [ "$word" != end ] || break
    rounds
    n=$((n + 1))
    echo "guest: run $n"
done </dev/ttyS1
TEST
    mkfifo runs.in runs.out
    start -cpu host -device branch-trace,kvm-root-entry=260 \
        -qmp unix:qmp,server=on,wait=off -name guest,debug-threads=on \
        -chardev pipe,id=runs,path=runs -serial chardev:runs "$@"
    exec 4>runs.in
    told begins
}

# run N: the guest runs the program, for the Nth time
run() {
    echo go >&4
    told "run $1"
}

# save_text CODE FILE: writes the guest kernel's .text to FILE; ../code has
# written CODE.  It is where it was linked to.
save_text() {
    say "pmemsave 0x1000000 $(od -A n -t d8 -j 8 -N 8 "$1") $2"
}

# end_guest: the guest ends by itself
end_guest() {
    echo end >&4
    wait "$guest"
    cat serial
    if grep -q complains serial; then
        exit 1      # set -e does not see "! grep"
    fi
}

# trace FILE OPTION...: starts to trace the guest
trace() {
    backtrail record -q --qmp qmp --names off -o "$@" &
    agent=$!
    until grep -q branch-trace "/proc/$guest"/task/*/comm &&
          [ -s "$1" ]; do
        kill -0 "$agent"
        sleep 0.05
    done
}

# end_trace: the agent ends it
end_trace() {
    kill -INT "$agent"
    wait "$agent"
}
