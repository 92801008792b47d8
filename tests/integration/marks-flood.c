/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The first process of a guest whose root is hostile: when the serial port says
 * so, it leaves marks as fast as it can, each with a name of its own, of any
 * bytes, in code that it writes over and over
 *
 * Made of the description in backtrail-mark.h.
 */

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

#include "backtrail-mark.h"

#define PAGES   64
#define SIZE    (PAGES * 4096)
#define NAME    BACKTRAIL_MARK_NAME_MAX

static unsigned long state = 1;

static unsigned char any(void)
{
    state = state * 6364136223846793005 + 1442695040888963407;
    /* No NUL, and many that control terminals */
    return state >> 60 ? (unsigned char)(state >> 33) | 1 : 033;
}

/* A mark with a name that begins with a number; returns where it ends. */
static unsigned char *put(unsigned char *at, unsigned long number)
{
    static const unsigned char head[] = { BACKTRAIL_MARK_SIGNATURE,
                                          BACKTRAIL_MARK_VERSION };
    char digits[20];
    int n = snprintf(digits, sizeof(digits), "%lu", number);

    *at++ = 0xeb;
    *at++ = sizeof(head) + 1 + NAME + 1;
    memcpy(at, head, sizeof(head));
    at += sizeof(head);
    *at++ = 0;
    memcpy(at, digits, n);
    for (int i = n; i < NAME; i++) {
        at[i] = any();
    }
    at[NAME] = 0;
    return at + NAME + 1;
}

int main(void)
{
    unsigned char *code = mmap(NULL, SIZE, PROT_READ | PROT_WRITE | PROT_EXEC,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned long n = 0, told = 0;
    char c;
    int console;

    mount("dev", "/dev", "devtmpfs", 0, NULL);
    console = open("/dev/console", O_RDWR);
    dup2(console, 0);
    dup2(console, 1);
    setvbuf(stdout, NULL, _IONBF, 0);
    printf("BT: ready\n");
    if (read(0, &c, 1) != 1) {
        return 1;
    }
    for (;;) {
        unsigned char *at = code;

        while (at < code + SIZE - 256) {
            at = put(at, n++);
        }
        *at = 0xc3;
        ((void (*)(void))code)();
        if (n >= told + 65536) {
            told = n;
            printf("BT: left %lu\n", n);
        }
    }
}
