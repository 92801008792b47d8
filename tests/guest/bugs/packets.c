/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * packets: a packet is mishandled.
 *
 * Readings of meters are sent by UDP.  A length of 128 and more takes two
 * bytes, which the receiver sees only from 0x81 on.  The packet is not lost: a
 * wrong sum is stored for it, which is noticed at the end.
 */

#include <arpa/inet.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../workload.h"

#define READINGS    200
#define LONG        123     /* the number of one with a long value */

static uint64_t sent[READINGS], received[READINGS];

static unsigned write_length(uint8_t *p, unsigned length)
{
    if (length < 0x80) {
        p[0] = length;
        return 1;
    }
    p[0] = 0x80 | length >> 8;
    p[1] = length;
    return 2;
}

static unsigned read_length(const uint8_t *p, unsigned *length)
{
    if (p[0] <= 0x80) {
        *length = p[0];
        return 1;
    }
    *length = (p[0] & 0x7f) << 8 | p[1];
    return 2;
}

static uint64_t sum_of(const uint8_t *value, unsigned n)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < n; i++) {
        sum = sum * 31 + value[i];
    }
    return sum;
}

/* A number, a length, and a value of that length */
static void send_reading(int fd, uint8_t number)
{
    uint8_t packet[512] = { number };
    unsigned length = number == LONG ? 150 : 20 + number % 50;
    unsigned n = 1 + write_length(packet + 1, length);

    for (unsigned i = 0; i < length; i++) {
        packet[n + i] = number * 7 + i;
    }
    sent[number] = sum_of(packet + n, length);
    if (send(fd, packet, n + length, 0) != n + length) {
        exit(1);
    }
}

static void receive_reading(int fd)
{
    uint8_t packet[512];
    unsigned length, n;

    if (recv(fd, packet, sizeof(packet), 0) < 2) {
        exit(1);
    }
    n = 1 + read_length(packet + 1, &length);
    received[packet[0]] = sum_of(packet + n, length);
}

static void report(unsigned number)
{
    workload_print("BT: wrong reading %u\n", number);
}

/* Sockets from which to which it goes */
static void open_sockets(int *from, int *to)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(4711),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };

    *from = socket(AF_INET, SOCK_DGRAM, 0);
    *to = socket(AF_INET, SOCK_DGRAM, 0);
    if (ioctl(*from, SIOCSIFFLAGS, &lo) ||
        bind(*to, (struct sockaddr *)&address, sizeof(address)) ||
        connect(*from, (struct sockaddr *)&address, sizeof(address))) {
        exit(1);
    }
}

int main(int argc, char **argv)
{
    struct workload w;
    int from, to;

    workload_begin(&w, "packets", argc, argv);
    open_sockets(&from, &to);
    for (unsigned i = 0; i < READINGS; i++) {
        send_reading(from, i);
        receive_reading(to);
    }
    for (unsigned i = 0; i < READINGS; i++) {
        if (sent[i] != received[i]) {
            report(i);
        }
        workload_add(&w, received[i]);
    }
    return workload_end(&w);
}
