# SPDX-License-Identifier: GPL-2.0-or-later
#
# To be read by a shell: starts a guest that runs a program whenever it is told
# so, traces it, and judges the traces.

# shellcheck source=tests/rig/linux/guest-talk.sh
. "${ROOT:-}/bin/guest-talk"

# The model of the guest's CPU, which can be followed by features
# shellcheck disable=SC2034
model=host
[ "${ACCEL:-kvm}" = kvm ] || model=max

# since TEXT: says how far the test is
since() {
    echo "after $(cut -d ' ' -f 1 /proc/uptime) s: $*"
}

# threads: what those of QEMU wait for, if the test fails
threads() {
    [ $? != 0 ] && [ -d "/proc/${guest:-none}/task" ] || return 0
    for task in /proc/"$guest"/task/*; do
        echo "$(cat "$task/comm"): $(cat "$task/syscall" "$task/stack" \
            2>/dev/null | head -n 12)"
    done
}
trap threads EXIT

# start_runs OPTION...: starts the guest, and waits until it has begun
start_runs() {
    guest-make <<'TEST'
#!/bin/sh
n=0
# Which page tables does the kernel use, and on how many CPUs?
mode() {
    echo "guest: mode is$(sed -n 's/^flags.*://p' /proc/cpuinfo | head -n 1 |
        tr ' ' '\n' | grep -xE 'la57|pcid|pti' | sort |
        sed 's/^/ /' | tr -d '\n') $(grep -c ^processor /proc/cpuinfo)"
}
# A process that works each time that it reads a line
turns_begin() {
    mkfifo turns
    turns "$@" <turns &
    exec 9>turns
}
turn() {
    echo >&9
}
# The module that maps the window of a trace
load() {
    insmod /files/backtrail-window.ko
}
unload() {
    rmmod backtrail_window
}
reload() {
    for _ in $(seq "$1"); do
        unload && load || return
    done
}
# The same while a program runs, from its beginning to its end
reload_beside() {
    rounds 1 2 3 4 5 6 7 8 &
    reload "$1" && wait $!
}
# It must not be loaded: what the kernel says is why.
refuse() {
    if load; then
        return 1
    fi
    dmesg | sed -n 's/.*backtrail_window: /guest: refused: /p'
}
# As if the machine slept, up to where it would
doze() {
    echo freezer >/sys/power/pm_test
    echo 0 >/sys/module/suspend/parameters/pm_test_delay
    echo freeze >/sys/power/state
}
grep -E ' (__entry_text_(start|end)|ret_from_fork_asm)$' /proc/kallsyms
echo "guest: begins"
while read -r command; do
    [ "$command" != end ] || break
    $command || echo "guest: complains of $command"
    n=$((n + 1))
    echo "guest: run $n ends"
done </dev/ttyS1
TEST
    mkfifo runs.in runs.out
    said=$(host_says | wc -l)
    start_traceable "$@"
    exec 4>runs.in
    told begins
    grep ' [tT] ' serial >symbols
}

# host_says: what this kernel has said, if it is the machine's
host_says() {
    [ -n "${ROOT:-}" ] || dmesg
}

# start_traceable OPTION...: starts the QEMU of such a guest; who maps the window
# is what "mapped" says
start_traceable() {
    [ "${ACCEL:-kvm}" != kvm ] ||
        set -- -cpu host \
            -global "branch-trace.${mapped:-kvm-root-entry=260}" "$@"
    start -device branch-trace \
        -qmp unix:qmp,server=on,wait=off -name guest,debug-threads=on \
        -chardev pipe,id=runs,path=runs -serial chardev:runs "$@"
}

# begin_run [ARGUMENT...]: the guest runs the program
begin_run() {
    echo "rounds $*" >&4
}

# begin_run_inside: so long that it is inside when the guest is stopped; TCG reads
# bytes faster than the emulated machine
begin_run_inside() {
    if [ "${ACCEL:-kvm}" = kvm ]; then
        begin_run 1 2 3
    else
        begin_run 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15
    fi
}

# begin_long_run: so long that one can look in
begin_long_run() {
    begin_run 1 2 3 4 5 6 7 8
}

# run N [TIMES]: the guest runs the program, for the Nth time; it has said so
# that many times, as it was there before
run() {
    begin_run
    told "run $1 ends" "${2:-1}"
}

# entries: how many page tables of the guest lead to memory of the trace; the
# guest has to have its memory in the file "ram"
entries() {
    trace-entries ram
}

# no_entries: none does
no_entries() {
    found=$(entries)
    if [ "$found" != 0 ]; then
        echo "$found page tables lead to memory of the trace"
        exit 1
    fi
}

# end_guest: the guest ends by itself, and this kernel has said nothing;
# "changes" says what of the .text of the guest's kernel, which is where it was
# linked to, is not as it was built
end_guest() {
    size=$(od -A n -t d8 -j 8 -N 8 "${ROOT:-}/files/guest-code" |
        tr -d ' ')
    execute pmemsave "\"val\": 16777216, \"size\": $size, \"filename\": \"text\""
    cmp -l -n "$size" "${ROOT:-}/files/guest-code" text 16 0 >changes ||
        [ $? = 1 ]
    echo end >&4
    wait "$guest"
    cat serial
    if grep -q complains serial; then
        exit 1      # set -e does not see "! grep"
    fi
    # That an interrupt took long says nothing on an emulated machine.
    host_says | tail -n "+$((said + 1))" |
        sed '/\(hrtimer\|perf\): interrupt took/d' >says
    cat says
    [ ! -s says ]
}

# outside FILE...: what the standard input says is done where ../run is, by a
# shell that has read guest-judge.sh, in a folder with these files; here it
# would take minutes
outside() {
    # shellcheck disable=SC2016
    { echo '. "$RIG/linux/guest-judge.sh"'; cat; } >judge
    [ -z "${ROOT:-}" ] || return 0
    stty -F /dev/ttyS1 115200 raw clocal
    [ ! -e changes ] || set -- changes symbols "$@"
    # Traces are compressed already.
    tar -c judge "$@" >/dev/ttyS1
}

# trace FILE OPTION...: starts to trace the guest
trace() {
    backtrail record -q --qmp qmp --names off -o "$@" &
    agent=$!
    until grep -qs branch-trace "/proc/$guest"/task/*/comm &&
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
