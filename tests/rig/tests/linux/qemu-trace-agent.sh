#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The agent that traces a Linux guest of our QEMU, by BTS, is stopped, killed
# and restarted.  The guest waits for it or not, as was asked for; it loses
# nothing, and what is recorded is exact.
#
# rig: program=@qemu/qemu-system-x86_64 @build/host-agent/cli/backtrail
# rig: file=/usr/share/qemu/linuxboot_dma.bin /usr/share/qemu/kvmvapic.bin
# rig: file=/usr/share/seabios/bios-256k.bin
# rig: file=@linux:original/bzImage @linux:original/code=guest-code
# rig: with=rounds.S trace-exact.c trace-way.c trace-entries.c
# rig: with=guest-init.sh guest-make.sh guest-run.sh
# rig: with=guest-talk.sh guest-trace.sh
# rig: memory=1024
# rig: linux=kvm_intel.bts_trace=1
# rig: timeout=1800
set -e
. /bin/guest-trace

# query: what QEMU says of the trace
query() {
    execute query-branch-trace
    grep '"vcpus"' control
}

# is WORD: waits until this is the state of the trace or of its vCPU
is() {
    until query | grep -q "\"state\": \"$1\""; do
        sleep 0.05
    done
}

# waits RUN: the guest waits for its agent, and QEMU does not
waits() {
    is waiting
    records=$(query | sed -n 's/.*"records": \([0-9]*\).*/\1/p')
    sleep 1
    [ "$(query | sed -n 's/.*"records": \([0-9]*\).*/\1/p')" = "$records" ]
    registers
    if grep -q "guest: run $1 ends" serial; then
        exit 1
    fi
}

start_runs \
    -object memory-backend-file,id=ram,size=192M,share=on,mem-path=ram \
    -machine memory-backend=ram

since "the agent is stopped"
trace stopped.btrail --agent-timeout 0 --buffer-size 128K
run 1
kill -STOP "$agent"
begin_run
waits 2
kill -CONT "$agent"
told "run 2 ends"

since "the agent is stopped, and so is the guest that waits for it"
kill -STOP "$agent"
begin_run
waits 3
since "it waits"
execute stop
no_entries
execute cont
since "it goes on"
waits 3
kill -CONT "$agent"
told "run 3 ends"
run 4
[ "$(entries)" -gt 0 ]
end_trace
no_entries
run 5

# kill_agent: in the middle of the program, when it has written what there is
kill_agent() {
    begin_long_run
    stop_inside
    sleep 2
    kill -KILL "$agent"
    wait "$agent" || [ $? = 137 ]
    execute cont
}

since "the agent is killed, and the guest goes on"
trace killed.btrail
run 6
kill_agent
is agent-lost
told "run 7 ends"
[ "$(entries)" -gt 0 ]
since "there is another one"
trace another.btrail --attach
is active
run 8
query >before
end_trace
no_entries
run 9

since "the agent is killed, and the guest waits"
trace killed-wait.btrail --agent-timeout 0 --buffer-size 128K
run 10
kill_agent
waits 11
since "there is another one"
trace another-wait.btrail --attach
told "run 11 ends"
run 12
end_trace
no_entries
run 13
since "it ends"
end_guest

outside stopped.btrail killed.btrail another.btrail killed-wait.btrail \
    another-wait.btrail <<'JUDGE'
judge stopped.btrail 4
[ -z "$(gaps stopped.btrail)" ]
judge killed.btrail 1 1
[ -z "$(gaps killed.btrail)" ]
# It may begin with a piece of the run before: what the buffer still had room for.
judge another.btrail 1 any
[ "$(gaps another.btrail | cut -d " " -f 2)" = agent-lost ]
judge killed-wait.btrail 1 1
mv script both
judge another-wait.btrail 1 1
[ "$(gaps another-wait.btrail | cut -d " " -f 2)" = agent-lost ]
# It lacks what the first one has written, and nothing else.
grep -v " event gap " script >>both
trace-exact "$ROOT/walk" 3 <both
trace-way "$ROOT/files/guest-code" changes symbols ${BTS_STRICT:+strict} <both
JUDGE
since "it has ended"
