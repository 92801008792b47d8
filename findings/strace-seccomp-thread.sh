#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# strace --seccomp-bpf stops a new thread at each of its system calls, until it
# makes one of those that are traced.
#
# One would guess:
#   With --seccomp-bpf, system calls that -e trace= does not name cost nothing:
#   the filter, which all threads inherit, lets them pass.
# What is so:
#   A program that strace starts is in the filter's hands from its execve() on.
#   A thread that it makes is not: strace has it stop at the beginning and the
#   end of each system call, as without the option, until its first system call
#   that is traced.  A thread that opens no file, and is watched for that, is as
#   slow as it can be for as long as it lives.  Nothing of it is in the output.
#   strace 6.1, 6.13.
# Why it matters:
#   Threads that do nothing but read, write and poll are those that make most
#   system calls: QEMU's monitor reads a byte at a time, and 300 kB of a command
#   took it a minute instead of a second.
# How to cope:
#   Trace set_robust_list, too: it is the first system call of each thread of
#   glibc.
#
# Takes a minute, most of it for apt's lists.

. "$(dirname "$0")/lib.sh" || exit
need gcc

# Prints how often a thread was stopped, per system call, in a loop of many.
cat >"$DIR/stops.c" <<'EOF'
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALLS 20000

static int opens;

static void *count(void *unused)
{
    struct rusage before, after;

    if (opens) {
        close(open("/dev/null", O_RDONLY));
    }
    getrusage(RUSAGE_THREAD, &before);
    for (int i = 0; i < CALLS; i++) {
        syscall(SYS_getppid);
    }
    getrusage(RUSAGE_THREAD, &after);
    printf("%.0f\n", (double)(after.ru_nvcsw - before.ru_nvcsw) / CALLS);
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;

    opens = !strcmp(argv[1], "opens");
    if (!strcmp(argv[1], "main")) {
        count(NULL);
    } else {
        pthread_create(&thread, NULL, count, NULL);
        pthread_join(thread, NULL);
    }
    return argc > 2;
}
EOF
gcc -O1 -pthread -o "$DIR/stops" "$DIR/stops.c"

# stops ROOT TRACED HOW: of a thread, for each of its system calls
stops() {
    within "$1" usr/bin/strace -f --seccomp-bpf -e "trace=$2" -o "$DIR/out" \
        "$DIR/stops" "$3" || skip "strace does not work here"
}

check() {
    local version=$1 root=$DIR/$1 found
    say "strace $version, stops for each system call that is not traced"
    for how in main thread opens; do
        found=$(stops "$root" openat "$how")
        say "  openat is traced, $how: $found"
        case $how in
        thread) [ "$found" = 2 ] || changed "a new thread is not stopped" ;;
        *) [ "$found" = 0 ] || changed "$how is stopped" ;;
        esac
    done
    found=$(stops "$root" openat,set_robust_list thread)
    say "  set_robust_list, too, thread: $found"
    [ "$found" = 0 ] || changed "set_robust_list does not help"
}

from bookworm
get_all "$DIR/6.1" strace=6.1-0.1
check 6.1
from trixie
get_all "$DIR/6.13" strace=6.13+ds-1
check 6.13
say "SO IT IS: strace --seccomp-bpf stops new threads until a traced system call"
