/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A process that is root's and a user's in turn: it executes two copies of
 * itself, of which one has the set-user-ID bit.  At a known address root's has
 * a secret, and the user's has none.
 *
 *   two-users USER MICROSECONDS-OF-ROOT MICROSECONDS-OF-USER OTHER OWN
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define ADDRESS     ((void *)UINT64_C(0x100000000))

static void spin(long us)
{
    struct timespec now, end;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += us * 1000;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec < end.tv_sec ||
             (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
}

int main(int argc, char **argv)
{
    char *page, *args[] = {
        argv[0], argc == 6 ? argv[1] : NULL, argv[2], argv[3], argv[5],
        argv[4], NULL
    };
    uid_t user;

    if (argc != 6) {
        return 2;
    }
    user = (uid_t)atoi(argv[1]);
    page = mmap(ADDRESS, 4096, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (page == MAP_FAILED) {
        return 1;
    }
    strcpy(page, geteuid() ? "nothing" : "secret");
    spin(atol(argv[geteuid() ? 3 : 2]));
    if (!geteuid() && setresuid(user, user, user)) {
        return 1;
    }
    execv(argv[4], args);
    return 1;
}
