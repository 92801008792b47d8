/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A process that is root's and a user's in turn: it executes two copies of
 * itself, of which one has the set-user-ID bit.  At a known address root's has
 * a secret, and the user's has none.  Each says a line when that is there, and
 * waits for a byte before the next is executed.
 *
 *   two-users USER OTHER OWN
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define ADDRESS     ((void *)UINT64_C(0x100000000))

int main(int argc, char **argv)
{
    char *page, *args[5], byte;
    clock_t end = clock() + CLOCKS_PER_SEC / 20;
    uid_t user;

    if (argc != 4) {
        return 2;
    }
    user = (uid_t)atoi(argv[1]);
    page = mmap(ADDRESS, 4096, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (page == MAP_FAILED) {
        return 1;
    }
    strcpy(page, geteuid() ? "nothing" : "secret");
    /* For whoever counts that */
    while (clock() < end) {
    }
    if (printf("%s\n", page) < 0 || fflush(stdout) || read(0, &byte, 1) != 1) {
        return 1;
    }
    if (!geteuid() && setresuid(user, user, user)) {
        return 1;
    }
    args[0] = argv[2];
    args[1] = argv[1];
    args[2] = argv[3];
    args[3] = argv[2];
    args[4] = NULL;
    execv(argv[2], args);
    return 1;
}
