#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A program run from a memfd is named memfd:NAME, with old stable kernels as
# well.
#
# One would guess: fexecve() gives a task the number of the file descriptor as
# its name (comm "4"), as it always did; only Linux 6.14 and later name it after
# the file, so 6.1 and 6.12 still show the number.
#
# What is so: Debian's 6.1.176 and 6.12.107 both show memfd:NAME.  The change
# is in today's stable kernels, too.
#
# Why it matters: tracers and security tools that look for programs that run
# from memory by names that are numbers, or that go by the kernel's version to
# know which of the two to expect, miss them.
#
# How to cope: look for both, whatever the version says; better, look at what
# /proc/PID/exe names.
#
# Takes 2 minutes; fetches 170 MB; boots guests under TCG.

. "$(dirname "$0")/lib.sh" || exit
need timeout gzip gcc
cat >"$DIR/memory.c" <<'EOF'
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char *words[] = { "memory", "again", NULL };
    char comm[32];
    int memory, self;

    if (argc > 1) {
        self = open("/proc/self/comm", O_RDONLY);
        return write(1, comm, read(self, comm, sizeof(comm))) < 1;
    }
    self = open("/proc/self/exe", O_RDONLY);
    memory = memfd_create("mine", MFD_CLOEXEC);
    while (sendfile(memory, self, NULL, 1 << 20) > 0) {
    }
    fexecve(memory, words, words + 2);
    perror("fexecve");
    return 1;
}
EOF
gcc -static -o "$DIR/memory" "$DIR/memory.c" || skip "gcc cannot link statically"
start_guests

look() {
    local seen
    seen=$(guest "$1" 300 "$DIR/memory" <<<memory)
    say "Linux $1: $seen"
    [ "$seen" = "$2" ] || changed "the name was $2 with Linux $1"
}

kernel 6.12.107 linux-image-6.12.107+deb13-cloud-amd64=6.12.107-1
look 6.12.107 memfd:mine
from bookworm
kernel 6.1.176 linux-image-6.1.0-50-cloud-amd64=6.1.176-1
look 6.1.176 memfd:mine
say "SO IT IS: memfd:NAME with 6.1 and 6.12, not the descriptor's number"
