/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * With the kernel in it, too, no record is missing
 *
 * Between two branches code goes straight on: each record comes from at or
 * after where the one before it went to, and not far after.  Only a context
 * switch or the driver's own work may be between them; BTS is off then.
 *
 * rig: kernel=original
 */
#include "aux.h"

#define FAR_AWAY 0x8000

int main(void)
{
    struct aux aux = aux_open(true, true, 64 * 4096, 0);
    size_t count, n, kernel = 0, user = 0, breaks = 0;
    struct record *list;
    char buffer[64];
    int fd;

    CHECK(ioctl(aux.fd, PERF_EVENT_IOC_ENABLE, 0) == 0);
    fd = open("/proc/self/stat", O_RDONLY);
    CHECK(fd >= 0);
    CHECK(read(fd, buffer, sizeof(buffer)) > 0);
    close(fd);
    CHECK(ioctl(aux.fd, PERF_EVENT_IOC_DISABLE, 0) == 0);
    list = aux_records(&aux, &count);
    for (n = 0; n < count; n++) {
        CHECK(list[n].from != 0 && list[n].to != 0);
        if (list[n].to >> 63) {
            kernel++;
        } else {
            user++;
        }
        if (n > 0 && (list[n].from < list[n - 1].to ||
                      list[n].from > list[n - 1].to + FAR_AWAY)) {
            printf("%zu: ... -> %llx, %llx -> ...\n", n,
                   (unsigned long long)list[n - 1].to,
                   (unsigned long long)list[n].from);
            breaks++;
        }
    }
    printf("%zu to kernel, %zu to user, %zu breaks\n", kernel, user, breaks);
    CHECK(kernel > 500);
    CHECK(user > 10);
    /* Where the driver switches BTS off to hand the buffer over */
    CHECK(breaks <= 2);
    return 0;
}
