# SPDX-License-Identifier: GPL-2.0-or-later
#
# To be read by a shell: starts a guest that runs a program whenever it is told
# so, traces it, and judges the traces.

# shellcheck source=tests/rig/linux/guest-talk.sh
. /bin/guest-talk

# since TEXT: says how far the test is
since() {
    echo "after $(cut -d ' ' -f 1 /proc/uptime) s: $*"
}

# start_runs OPTION...: starts the guest, and waits until it has begun
start_runs() {
    guest-make <<'TEST'
#!/bin/sh
n=0
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
    said=$(dmesg | wc -l)
    start_traceable "$@"
    exec 4>runs.in
    told begins
    grep ' [tT] ' serial >symbols
}

# start_traceable OPTION...: starts the QEMU of such a guest
start_traceable() {
    start -cpu host -device branch-trace,kvm-root-entry=260 \
        -qmp unix:qmp,server=on,wait=off -name guest,debug-threads=on \
        -chardev pipe,id=runs,path=runs -serial chardev:runs "$@"
}

# begin_run [ARGUMENT...]: the guest runs the program
begin_run() {
    echo "rounds $*" >&4
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

# end_guest: the guest ends by itself, and this kernel has said nothing; "text"
# is the .text of the guest's kernel, which is where it was linked to
end_guest() {
    size=$(od -A n -t d8 -j 8 -N 8 /files/guest-code | tr -d ' ')
    say "pmemsave 0x1000000 $size text"
    until [ "$(wc -c <text)" = "$size" ]; do
        sleep 0.05
    done
    echo end >&4
    wait "$guest"
    cat serial
    if grep -q complains serial; then
        exit 1      # set -e does not see "! grep"
    fi
    # That a timer's interrupt took long says nothing on an emulated machine.
    dmesg | tail -n "+$((said + 1))" |
        sed '/hrtimer: interrupt took/d' >says
    cat says
    [ ! -s says ]
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

# judge FILE RUNS [PIECES]: what is recorded of the program is exact, and what
# its kernel has done is one way through its code
judge() {
    echo "$1:"
    # A trace whose agent was killed lacks its end.
    backtrail script --events "$1" >script || [ $? = 3 ]
    trace-exact "$2" "${3:-0}" <script >exact || { cat exact; exit 1; }
    cat exact
    trace-way /files/guest-code text symbols ${BTS_STRICT:+strict} <script
}

# gaps FILE: why records are missing in it, or time has jumped, and how often
gaps() {
    backtrail script --events-only "$1" |
        sed -n 's/.* event gap reason=\([a-z-]*\) .*/\1/p' | sort | uniq -c |
        sed 's/^ *//'
}
