/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: live-blocks SOCKET SIZE
 *
 * Asks the gdbstub of a QEMU at SOCKET, as GDB does, to trace the guest's
 * branches, SIZE bytes of them, and lets the guest run.  When somebody has
 * stopped it and written a line to standard input, it prints the records between
 * the blocks of instructions that it gets, the oldest first, as "backtrail
 * script" would, and stops tracing.
 */
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PACKET  16384

static int stub;

static void __attribute__((noreturn)) fail(const char *what, const char *said)
{
    printf("%s: %s\n", what, said);
    exit(1);
}

static char buffer[PACKET];
static ssize_t at, n;

/* Is there something to receive, or is there within a moment? */
static bool has_more(void)
{
    struct pollfd p = { .fd = stub, .events = POLLIN };

    return at < n || poll(&p, 1, 500) > 0;
}

static char get_byte(void)
{
    if (at == n) {
        at = 0;
        n = read(stub, buffer, sizeof(buffer));
        if (n <= 0) {
            fail("gdbstub", "has hung up");
        }
    }
    return buffer[at++];
}

/* Receives a packet, and acknowledges it; returns its length. */
static size_t receive(char *packet, size_t size)
{
    size_t length = 0;
    char c;

    while (get_byte() != '$') {
    }
    while ((c = get_byte()) != '#') {
        if (c == '}') {
            c = get_byte() ^ 0x20;
        }
        if (length + 1 == size) {
            fail("gdbstub", "sends too long a packet");
        }
        packet[length++] = c;
    }
    packet[length] = 0;
    get_byte();
    get_byte();
    if (write(stub, "+", 1) != 1) {
        fail("gdbstub", "does not listen");
    }
    return length;
}

static void put(const char *text)
{
    uint8_t sum = 0;

    for (const char *c = text; *c; c++) {
        sum += *c;
    }
    dprintf(stub, "$%s#%02x", text, sum);
}

static size_t ask(const char *text, char *answer, size_t size)
{
    put(text);
    return receive(answer, size);
}

static void command(const char *text)
{
    char answer[256];

    ask(text, answer, sizeof(answer));
    if (strcmp(answer, "OK")) {
        fail(text, answer);
    }
}

static void connect_to(const char *path)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };

    stub = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(to.sun_path, sizeof(to.sun_path), "%s", path);
    if (connect(stub, (void *)&to, sizeof(to))) {
        perror(path);
        exit(1);
    }
}

static char *document(void)
{
    char packet[PACKET], request[64];
    size_t length = 0, got;
    char *text = NULL;

    do {
        snprintf(request, sizeof(request), "qXfer:btrace:read:all:%zx,3f00",
                 length);
        got = ask(request, packet, sizeof(packet));
        if (!got || (packet[0] != 'm' && packet[0] != 'l')) {
            fail(request, packet);
        }
        text = realloc(text, length + got);
        memcpy(text + length, packet + 1, got);
        length += got - 1;
    } while (packet[0] == 'm');
    return text;
}

static const char *attribute(const char *text, const char *name,
                             unsigned long long *value)
{
    const char *found = strstr(text, name);
    char *end;

    if (!found) {
        fail("not a block", text);
    }
    *value = strtoull(found + strlen(name), &end, 16);
    return end;
}

/*
 * The newest block comes first, and a record is between two of them.  There is
 * none where code cannot be read any more: that has a block at 0.
 */
static void print_records(const char *text)
{
    unsigned long long (*blocks)[2] = NULL;
    size_t count = 0;

    while ((text = strstr(text, "<block "))) {
        if (!(count & (count + 1))) {
            blocks = realloc(blocks, (2 * count + 2) * sizeof(*blocks));
        }
        /* sscanf() would read all of the text each time. */
        text = attribute(text, "begin=\"", &blocks[count][0]);
        text = attribute(text, "end=\"", &blocks[count][1]);
        count++;
    }
    for (size_t i = count; i-- > 1;) {
        if (blocks[i][1] && blocks[i - 1][0]) {
            printf("0 %zu 0.0 0x%016x 0x%016llx 0x%016llx 0x0\n", count - i, 0,
                   blocks[i][1], blocks[i - 1][0]);
        }
    }
    free(blocks);
}

int main(int argc, char **argv)
{
    char text[256];
    char *found;

    if (argc != 3) {
        fprintf(stderr, "usage: live-blocks SOCKET SIZE\n");
        return 2;
    }
    connect_to(argv[1]);
    snprintf(text, sizeof(text), "Qbtrace-conf:bts:size=%lx",
             strtoul(argv[2], NULL, 0));
    command(text);
    command("Qbtrace:bts");
    put("c");
    if (!fgets(text, sizeof(text), stdin)) {
        fail("standard input", "ends");
    }
    while (has_more()) {
        /* that the guest has stopped */
        receive(text, sizeof(text));
    }
    found = document();
    print_records(found);
    free(found);
    command("Qbtrace:off");
    return 0;
}
