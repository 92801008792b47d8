/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * caller: makes many system calls, and hands bytes to a child and back
 * through pipes: user to kernel and back, and switches of address space
 */

#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "workload.h"

#define CALLS 200
#define TURNS 50

static void fail(void)
{
    workload_print("BT: error comm=caller\n");
    exit(1);
}

int main(int argc, char **argv)
{
    int there[2], back[2], zero, i;
    struct workload w;
    uint8_t byte, buf[512];
    pid_t child;

    workload_begin(&w, "caller", argc, argv);
    zero = open("/dev/zero", O_RDONLY);
    if (zero < 0 || pipe(there) < 0 || pipe(back) < 0) {
        fail();
    }
    child = fork();
    if (child < 0) {
        fail();
    }
    if (child == 0) {
        close(there[1]);
        while (read(there[0], &byte, 1) == 1) {
            byte ^= 0x55;
            if (write(back[1], &byte, 1) != 1) {
                _exit(1);
            }
        }
        _exit(0);
    }
    close(there[0]);
    close(back[1]);
    do {
        for (i = 0; i < CALLS; i++) {
            if (syscall(SYS_getppid) < 0 || syscall(SYS_close, -1) != -1 ||
                read(zero, buf, sizeof(buf)) != sizeof(buf)) {
                fail();
            }
        }
        for (i = 0; i < TURNS; i++) {
            uint8_t sent = i + w.rounds;

            if (write(there[1], &sent, 1) != 1 ||
                read(back[0], &byte, 1) != 1 || byte != (sent ^ 0x55)) {
                fail();
            }
            workload_add(&w, byte);
        }
    } while (workload_next(&w));
    close(there[1]);
    if (waitpid(child, &i, 0) != child || i != 0) {
        fail();
    }
    return workload_end(&w);
}
