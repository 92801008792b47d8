# SPDX-License-Identifier: GPL-2.0-or-later
#
# To be read by a shell that has made a guest (guest-make): starts it, talks to
# its QEMU, and waits for what it says.

# start OPTION...: starts the guest with a monitor that reads from a pipe; what
# it answers is added to "control"
start() {
    rm -f control.in control.out
    mkfifo control.in control.out
    : >control
    : >>serial
    cat <control.out >>control &
    guest-run -chardev pipe,id=control,path=control \
        -mon control,mode=control "$@" &
    guest=$!
    exec 5>control.in
    execute qmp_capabilities
}

# execute COMMAND [ARGUMENTS]: has QEMU execute a command of QMP, and waits until
# it has; "control" is what it has said since
execute() {
    : >control
    echo "{\"execute\": \"$1\", \"arguments\": {${2:-}}}" >&5
    until grep -q '"return":\|"error":' control; do
        kill -0 "$guest" || exit
        sleep 0.02
    done
    if grep '"error":' control; then
        exit 1
    fi
}

# job COMMAND ARGUMENTS: the same of one that goes on in the background
job() {
    execute "$1" "\"job-id\": \"job\", $2"
    until grep -q '"status": "concluded"' control; do
        kill -0 "$guest"
        sleep 0.05
    done
    execute query-jobs
    execute job-dismiss '"id": "job"'
}

# status STATE: waits until that is the guest's
status() {
    until execute query-status; grep -q "\"status\": \"$1\"" control; do
        sleep 0.05
    done
}

# registers: asks for those of the first vCPU
registers() {
    execute human-monitor-command '"command-line": "info registers"'
    grep -q RIP= control
}

# quit: ends QEMU
quit() {
    echo '{"execute": "quit"}' >&5
    exec 5>&-
    wait "$guest"
}

# told LINE [TIMES]: waits until the guest has said this, so many times
told() {
    until [ "$(grep -c "guest: $1" serial)" -ge "${2:-1}" ]; do
        kill -0 "$guest"
        sleep 0.1
    done
}

# stop_inside [END]: stops the guest in "rounds"; nobody else is at that address.
# It has not ended yet: that is when the guest says END.
stop_inside() {
    end="guest: ${1:-run .* ends}"
    ends=$(grep -c "$end" serial || :)
    execute stop
    until registers; grep -q "RIP=0000000020001[01]" control; do
        if [ "$(grep -c "$end" serial)" != "$ends" ]; then
            echo "the run has ended before the guest was stopped in it"
            exit 1
        fi
        execute cont
        execute stop
    done
}
