/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The first process of a guest whose root is hostile: when the serial port says
 * so, it says names to the agent, as fast as it can and without end
 *
 * Made of docs/guest-names.md and the header of the messages.
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "backtrail/guest-names.h"

#define PORT    "/dev/vport0p1"

static unsigned char buffer[1 << 20];
static size_t used;
static int port;

static void flush(void)
{
    size_t at = 0;

    while (at < used) {
        ssize_t n = write(port, buffer + at, used - at);

        at += n > 0 ? (size_t)n : 0;
    }
    used = 0;
}

/* A message: its struct, and a text after it */
static void say(unsigned type, const void *fixed, size_t size,
                const char *text)
{
    size_t n = strlen(text);
    struct btrail_guest_header header = {
        .size = (uint32_t)(size + n), .type = (uint16_t)type,
    };

    if (used + sizeof(header) + size + n > sizeof(buffer)) {
        flush();
    }
    memcpy(buffer + used, &header, sizeof(header));
    memcpy(buffer + used + sizeof(header), fixed, size);
    memcpy(buffer + used + sizeof(header) + size, text, n);
    used += sizeof(header) + size + n;
}

static void say_hello(uint64_t nonce)
{
    const struct btrail_guest_hello m = {
        .magic = BTRAIL_GUEST_MAGIC, .nonce = nonce,
        .version = BTRAIL_GUEST_VERSION, .cpus = 1, .release_size = 5,
    };

    say(BTRAIL_GUEST_HELLO, &m, sizeof(m), "6.6.6");
    flush();
}

/* What comes of each kind takes memory, time, or a place in the trace. */
static void say_all(uint32_t i)
{
    static char path[4001];
    const uint64_t time = 1000 + i;
    const uint32_t pid = 100 + i / 64;
    char comm[32];
    const struct btrail_guest_process process = {
        .time = time, .start_time = pid, .pid = pid, .comm_size = 4,
    };
    const struct btrail_guest_fork fork = { time, pid + 7, pid + 7, pid, pid };
    const struct btrail_guest_symbols symbols = {
        BTRAIL_GUEST_SYMBOLS_BEGIN | BTRAIL_GUEST_SYMBOLS_END, 31,
    };
    const struct btrail_guest_functions functions = {
        .time = time, .pid = pid, .size = 17,
    };
    const struct btrail_guest_mapping mapping = {
        .time = time, .start = 0x10000000ull + i * 4096ull,
        .end = 0x10000000ull + i * 4096ull + 4096, .pid = pid, .flags = 5,
        .path_size = 4000,
    };
    struct btrail_guest_thread thread = {
        .time = time, .pid = pid, .tid = 1000000000 - i,
    };
    struct btrail_guest_name name = {
        .time = time, .pid = pid, .tid = thread.tid,
    };

    if (!(i % 64)) {
        say(BTRAIL_GUEST_PROCESS, &process, sizeof(process), "evil");
        say(BTRAIL_GUEST_FORK, &fork, sizeof(fork), "");
        say(BTRAIL_GUEST_SYMBOLS, &symbols, sizeof(symbols),
            "ffffffff81000000 T evil_symbol\n");
        memset(path, 'a' + i / 64 % 26, sizeof(path) - 1);
        say(BTRAIL_GUEST_MAPPING, &mapping, sizeof(mapping), path);
        say(BTRAIL_GUEST_FUNCTIONS, &functions, sizeof(functions),
            "10000000 10 evil\n");
    }
    snprintf(comm, sizeof(comm), "thread-%08x", i);
    thread.comm_size = name.comm_size = (uint32_t)strlen(comm);
    say(BTRAIL_GUEST_THREAD, &thread, sizeof(thread), comm);
    comm[0] = 'T';
    say(BTRAIL_GUEST_NAME, &name, sizeof(name), comm);
}

int main(void)
{
    struct {
        struct btrail_guest_header header;
        struct btrail_guest_open open;
    } request;
    char line[16];
    size_t have = 0;

    mount("dev", "/dev", "devtmpfs", 0, NULL);
    freopen("/dev/console", "r+", stdin);
    while ((port = open(PORT, O_RDWR)) < 0) {
        usleep(10000);
    }
    printf("BT: ready\n");
    fflush(stdout);
    while (have < sizeof(request)) {
        ssize_t n = read(port, (char *)&request + have,
                         sizeof(request) - have);

        if (n > 0) {
            have += (size_t)n;
        } else {
            usleep(10000);
        }
    }
    say_hello(request.open.nonce);
    printf("BT: asked\n");
    fflush(stdout);
    if (!fgets(line, sizeof(line), stdin)) {
        printf("BT: error\n");
    }
    for (uint32_t i = 0;; i++) {
        say_all(i);
        if (!(i % (1 << 16))) {
            printf("BT: said %u\n", i);
            fflush(stdout);
        }
    }
}
