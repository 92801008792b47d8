/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Has the kernel's own BTS driver trace the user mode of the program "rounds",
 * and fails unless the trace is what ../walk says; perf does the same, but has
 * so much to do before that an emulated machine takes long to trace that, too.
 */
#include <sys/wait.h>

#include "aux.h"

int main(void)
{
    struct record *list;
    struct aux aux;
    int go[2], status;
    size_t count;
    pid_t child;
    char byte = 0;

    CHECK(pipe(go) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(read(go[0], &byte, 1) == 1);
        execlp("rounds", "rounds", NULL);
        CHECK(!"there is no program \"rounds\"");
    }
    /* Half of the area is filled, so that there is an interrupt. */
    aux = aux_open_as(child, false, true, 32 * 4096, 0, PROT_READ | PROT_WRITE);
    CHECK(write(go[1], &byte, 1) == 1);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    list = aux_records(&aux, &count);
    aux_is_walk(list, count);
    return 0;
}
