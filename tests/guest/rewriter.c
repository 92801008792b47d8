/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rewriter: changes a page of code again and again, and calls it each time,
 * from two processes that share it and at two addresses in each: code that is
 * never the same, in two address spaces, on two CPUs if there are
 */

#define _GNU_SOURCE

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "workload.h"

#define PAGE        4096
#define CHANGES     400
#define SLOTS       40
#define SLOT_SIZE   16
#define RET_AT      448
#define SLOTS_AT    512

/* How the two processes communicate; not in the page with the code */
struct turn {
    uint32_t want;              /* changes made, by the parent */
    uint32_t slot;              /* which was changed */
    uint32_t value;             /* what it returns now */
    uint32_t done;              /* changes seen, by the child */
    uint32_t wrong;
    uint32_t end;
};

typedef uint32_t function(uint32_t slot);

static void fail(void)
{
    workload_print("BT: error comm=rewriter\n");
    exit(1);
}

/* The shared page, once more */
static uint8_t *map(int fd, int prot)
{
    uint8_t *page = mmap(NULL, PAGE, prot, MAP_SHARED, fd, 0);

    if (page == MAP_FAILED) {
        fail();
    }
    return page;
}

static uint8_t *put32(uint8_t *at, uint32_t value)
{
    memcpy(at, &value, sizeof(value));
    return at + sizeof(value);
}

static uint8_t *slot_of(uint8_t *page, unsigned slot)
{
    return page + SLOTS_AT + slot * SLOT_SIZE;
}

/*
 * The page begins with a comparison and a conditional jump for each slot, which
 * stay: so it is new code that is reached from old code, when a slot is used
 * for the first time.
 */
static void clear(uint8_t *page)
{
    uint8_t *at = page;
    unsigned i;

    memset(page, 0, PAGE);
    for (i = 0; i < SLOTS; i++) {
        *at++ = 0x83;           /* cmp $i, %edi */
        *at++ = 0xff;
        *at++ = i;
        *at++ = 0x0f;           /* je slot */
        *at++ = 0x84;
        at = put32(at, slot_of(page, i) - (at + 4));
    }
    *at++ = 0x31;               /* xor %eax, %eax */
    *at++ = 0xc0;
    *at++ = 0xc3;               /* ret */
    page[RET_AT] = 0xc3;
}

/* mov $value, %eax; jmp to a ret */
static void change(uint8_t *page, unsigned slot, uint32_t value)
{
    uint8_t *at = slot_of(page, slot);

    *at++ = 0xb8;
    at = put32(at, value);
    *at++ = 0xe9;
    put32(at, page + RET_AT - (at + 4));
}

/* On another CPU than the other process, if there is one */
static void move_to(unsigned cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu % sysconf(_SC_NPROCESSORS_ONLN), &set);
    sched_setaffinity(0, sizeof(set), &set);
}

/* A function pointer is no data pointer to the compiler. */
static uint32_t call(const uint8_t *page, unsigned slot)
{
    function *f;

    memcpy(&f, &page, sizeof(f));
    return f(slot);
}

/* Both addresses are called again without a change, too. */
static int right(uint8_t *const pages[2], const struct turn *t)
{
    int i, good = 1;

    for (i = 0; i < 6; i++) {
        uint32_t a = 0;

        /* What was written by another CPU takes a serializing instruction. */
        __asm__ volatile("cpuid" : "+a"(a) : : "ebx", "ecx", "edx", "memory");
        good &= call(pages[i % 2], t->slot) ==
                (t->slot < SLOTS ? t->value : 0);
    }
    return good;
}

static void child(struct turn *t, uint8_t *const pages[2])
{
    uint32_t seen = 0;

    move_to(1);
    for (;;) {
        uint32_t want = __atomic_load_n(&t->want, __ATOMIC_ACQUIRE);

        if (want == seen) {
            if (__atomic_load_n(&t->end, __ATOMIC_ACQUIRE)) {
                _exit(0);
            }
            sched_yield();
            continue;
        }
        seen = want;
        if (!right(pages, t)) {
            __atomic_store_n(&t->wrong, 1, __ATOMIC_RELEASE);
        }
        __atomic_store_n(&t->done, seen, __ATOMIC_RELEASE);
    }
}

int main(int argc, char **argv)
{
    struct turn *t = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int fd = memfd_create("rewriter", 0), status, i;
    struct workload w;
    uint64_t random = 88172645463325252ull;
    uint8_t *pages[2], *data;
    pid_t pid;

    workload_begin(&w, "rewriter", argc, argv);
    if (t == MAP_FAILED || fd < 0 || ftruncate(fd, PAGE) < 0) {
        fail();
    }
    data = map(fd, PROT_READ | PROT_WRITE);
    pages[0] = map(fd, PROT_READ | PROT_WRITE | PROT_EXEC);
    pages[1] = map(fd, PROT_READ | PROT_EXEC);
    pid = fork();
    if (pid < 0) {
        fail();
    }
    if (pid == 0) {
        child(t, pages);
    }
    move_to(0);
    do {
        for (i = 0; i < CHANGES; i++) {
            uint64_t r = workload_random(&random);
            unsigned next = i % (2 * SLOTS);

            /* Sometimes by an address that it is executed at. */
            uint8_t *page = r & 1 ? data : pages[0];

            t->value = r >> 32;
            if (!next) {
                clear(page);
                t->slot = SLOTS;
            } else {
                /* A slot that is new, and one that was used before */
                t->slot = next % 2 ? next / 2 : (r >> 1) % (next / 2);
                change(page, t->slot, t->value);
            }
            __atomic_store_n(&t->want, t->want + 1, __ATOMIC_RELEASE);
            if (!right(pages, t)) {
                fail();
            }
            while (__atomic_load_n(&t->done, __ATOMIC_ACQUIRE) != t->want) {
                sched_yield();
            }
            workload_add(&w, t->value);
        }
    } while (workload_next(&w));
    __atomic_store_n(&t->end, 1, __ATOMIC_RELEASE);
    if (t->wrong || waitpid(pid, &status, 0) != pid || status) {
        fail();
    }
    return workload_end(&w);
}
