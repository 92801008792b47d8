# SPDX-License-Identifier: GPL-2.0-or-later
#
# To be read by a shell that has made a guest (guest-make): starts it, talks to
# its QEMU, and waits for what it says.

# start OPTION...: starts the guest with two monitors that read from pipes, for
# people and for programs; what they answer is added to "monitor" and "control"
start() {
    rm -f monitor.in monitor.out control.in control.out
    mkfifo monitor.in monitor.out control.in control.out
    : >monitor
    : >control
    : >>serial
    cat <monitor.out >>monitor &
    cat <control.out >>control &
    guest-run -chardev pipe,id=monitor,path=monitor -mon monitor \
        -chardev pipe,id=control,path=control \
        -mon control,mode=control "$@" &
    guest=$!
    exec 3>monitor.in 5>control.in
    execute qmp_capabilities
}

# execute COMMAND [ARGUMENTS]: has QEMU execute a command of QMP; "control" is
# what it has said since
execute() {
    : >control
    echo "{\"execute\": \"$1\", \"arguments\": {${2:-}}}" >&5
    until grep -q '"return":\|"error":' control; do
        kill -0 "$guest"
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

# say COMMAND: to the monitor
say() {
    kill -0 "$guest"
    echo "$1" >&3
    sleep 0.02
}

# told LINE [TIMES]: waits until the guest has said this, so many times
told() {
    until [ "$(grep -c "guest: $1" serial)" -ge "${2:-1}" ]; do
        kill -0 "$guest"
        sleep 0.1
    done
}

# answered TEXT COMMAND: says this again and again until that is the answer
answered() {
    : >monitor
    until grep -q "$1" monitor; do
        say "$2"
    done
}

# stop_inside: stops the guest in "rounds"; nobody else is at that address
stop_inside() {
    : >monitor
    until grep -q "RIP=0000000020001[01]" monitor; do
        say cont
        say stop
        answered RIP= "info registers"
    done
}
