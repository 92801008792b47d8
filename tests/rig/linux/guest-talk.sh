# SPDX-License-Identifier: GPL-2.0-or-later
#
# To be read by a shell that has made a guest (guest-make): starts it, talks to
# its QEMU, and waits for what it says.

# start OPTION...: starts the guest with a monitor that reads from a pipe; what
# it answers is added to "monitor"
start() {
    rm -f monitor.in monitor.out
    mkfifo monitor.in monitor.out
    : >monitor
    : >>serial
    cat <monitor.out >>monitor &
    guest-run -chardev pipe,id=monitor,path=monitor -mon monitor "$@" &
    guest=$!
    exec 3>monitor.in
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
    until grep -q "RIP=0000000000401[01]" monitor; do
        say cont
        say stop
        answered RIP= "info registers"
    done
}
