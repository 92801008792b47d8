/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The driver's circular mode: the newest records are kept, without interrupts
 *
 * An AUX area that is mapped read-only makes the driver clear BTINT and put
 * the threshold above the end of the buffer.
 *
 * rig: kernel=original
 * rig: walk=walk_begin walk_end (T N T)*999 T N N (T N T)*999 T N N T*3 N
 */
#include "aux.h"

#define SIZE (4 * 4096)
#define ROOM (SIZE / sizeof(struct record))

static void traced(long fd)
{
    asm volatile(
        AUX_ENABLE
        "walk_begin:\n"
        "   movl    $1000, %%ebx\n"
        "1: xorl    %%eax, %%eax\n"
        "   jz      2f\n"
        "   ud2\n"
        "2: jnz     2b\n"
        "   call    leaf\n"
        "   decl    %%ebx\n"
        "   jnz     1b\n"
        "   movl    $1000, %%ebx\n"
        "3: xorl    %%eax, %%eax\n"
        "   jz      4f\n"
        "   ud2\n"
        "4: jnz     4b\n"
        "   call    leaf\n"
        "   decl    %%ebx\n"
        "   jnz     3b\n"
        "   movl    $4, %%ecx\n"
        "5: nop\n"
        "   loop    5b\n"
        "walk_end:\n"
        AUX_DISABLE
        "   jmp     6f\n"
        "leaf:\n"
        "   ret\n"
        "6:\n"
        :
        : AUX_OPERANDS(fd)
        : AUX_CLOBBERS);
}

int main(void)
{
    static struct record walk[10000], ring[ROOM], seen[ROOM];
    unsigned long long from, to;
    unsigned long before = aux_nmis();
    size_t walked = 0, first, count, n;
    FILE *file = fopen("/walk", "r");
    struct aux aux;

    CHECK(file != NULL);
    while (fscanf(file, "%llx %llx", &from, &to) == 2) {
        CHECK(walked < sizeof(walk) / sizeof(walk[0]));
        walk[walked].from = from;
        walk[walked++].to = to;
    }
    CHECK(walked > ROOM);
    aux = aux_open_snapshot(SIZE);
    traced(aux.fd);
    CHECK(aux_nmis() == before);
    memcpy(ring, aux.data, sizeof(ring));

    /* The oldest is after the newest, which is the last of all. */
    for (first = 0; first < ROOM; first++) {
        if (ring[first].from == walk[walked - 1].from &&
            ring[first].to == walk[walked - 1].to &&
            ring[(first + 1) % ROOM].from != walk[walked - 1].from) {
            break;
        }
    }
    if (first == ROOM) {
        fail("the last record is not in the buffer");
    }
    first++;
    for (count = n = 0; n < ROOM; n++) {
        if (!(ring[(first + n) % ROOM].from >> 63)) {
            seen[count++] = ring[(first + n) % ROOM];
        }
    }
    printf("%zu of %zu branches, %zu returns from the kernel\n", count, walked,
           ROOM - count);
    CHECK(count > ROOM / 2);
    for (n = 0; n < count; n++) {
        const struct record *record = &walk[walked - count + n];

        if (seen[n].from != record->from || seen[n].to != record->to) {
            fail("record %zu is %llx -> %llx, not %llx -> %llx", n,
                 (unsigned long long)seen[n].from,
                 (unsigned long long)seen[n].to,
                 (unsigned long long)record->from,
                 (unsigned long long)record->to);
        }
    }
    return 0;
}
