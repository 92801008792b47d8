/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: window-liar COUNT
 *
 * For a guest of a QEMU with kvm-guest-window: says COUNT times that the window
 * of a trace is mapped where it is not, as a kernel could, at addresses of all
 * kinds and with words of all sizes, and in the end what was said before.
 * Fails unless QEMU keeps exactly the words that it should.
 *
 * The file's contents and the accesses of fw_cfg are as QEMU's documents say.
 */
#include <endian.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/mman.h>
#include <unistd.h>

#define PORT        0x514
#define FILES       0x19
#define READ        2
#define SKIP        4
#define SELECT      8
#define WRITE       16
#define ERROR       1
#define ALIGNMENT   0x200000

struct file {
    uint32_t size;
    uint16_t select;
    uint16_t reserved;
    char name[56];
};

/* All that the device reads and writes, in one page */
static struct page {
    struct {
        uint32_t control;
        uint32_t length;
        uint64_t address;
    } access;
    union {
        uint32_t count;
        struct file file;
        uint64_t words[4];
    };
} *page;

static uint64_t physical;

static void __attribute__((noreturn)) fail(const char *what)
{
    perror(what);
    exit(1);
}

/* Is it done? */
static bool access_device(uint32_t control, uint32_t length)
{
    volatile uint32_t *status = &page->access.control;

    page->access.length = htobe32(length);
    page->access.address = htobe64(physical + offsetof(struct page, count));
    *status = htobe32(control);
    /* The compiler does not know that an OUT changes memory. */
    __asm__ volatile("" : : : "memory");
    outl(htobe32(physical >> 32), PORT);
    outl(htobe32(physical), PORT + 4);
    while (be32toh(*status) & ~ERROR) {
    }
    __asm__ volatile("" : : : "memory");
    return !*status;
}

static void map_page(void)
{
    int fd = open("/proc/self/pagemap", O_RDONLY);
    uint64_t entry;

    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED | MAP_POPULATE, -1, 0);
    if (page == MAP_FAILED) {
        fail("mmap");
    }
    memset(page, 0, 4096);
    if (fd < 0 || pread(fd, &entry, sizeof(entry), (uintptr_t)page / 4096 *
                        sizeof(entry)) != sizeof(entry)) {
        fail("pagemap");
    }
    physical = (entry & ((1ull << 55) - 1)) * 4096;
    if (!physical || ioperm(PORT, 8, 1)) {
        fail("ioperm");
    }
    close(fd);
}

static uint32_t find_file(void)
{
    uint32_t count;

    if (!access_device(FILES << 16 | SELECT | READ, sizeof(page->count))) {
        fail("fw_cfg");
    }
    for (count = be32toh(page->count); count; count--) {
        access_device(READ, sizeof(page->file));
        if (!strcmp(page->file.name, "etc/branch-trace-window")) {
            return be16toh(page->file.select) << 16;
        }
    }
    printf("there is no window\n");
    exit(1);
}

/* What QEMU says now */
static uint64_t linear(uint32_t key, uint64_t *size)
{
    if (!access_device(key | SELECT | READ, 24)) {
        fail("fw_cfg");
    }
    if (size) {
        *size = le64toh(page->words[2]);
    }
    return le64toh(page->words[0]);
}

static uint64_t some(void)
{
    static uint64_t state = 1;

    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return state ^ state >> 29;
}

static uint64_t some_address(uint64_t mapped)
{
    switch (some() % 8) {
    case 0:
        return 0;
    case 1:
        return some();                                  /* anything */
    case 2:
        return some() >> 1;                             /* user mode's */
    case 3:
        return -(some() % (1ull << 47)) & -ALIGNMENT;   /* the kernel's */
    case 4:
        return -(some() % (1ull << 57)) & -ALIGNMENT;   /* with 5 levels */
    case 5:
        return -ALIGNMENT;                              /* too near the end */
    case 6:
        return mapped + (some() % 9 - 4) * ALIGNMENT;   /* beside it */
    default:
        return mapped;
    }
}

static bool is_possible(uint64_t address, uint64_t size)
{
    return (int64_t)(address << 7) >> 7 == (int64_t)address &&
           (int64_t)address < 0 && address % ALIGNMENT == 0 &&
           address + size > address;
}

static void check(uint32_t key, uint64_t wanted)
{
    uint64_t said = linear(key, NULL);

    if (said != wanted) {
        printf("QEMU keeps %llx and not %llx\n", (unsigned long long)said,
               (unsigned long long)wanted);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    unsigned long count = argc == 2 ? strtoul(argv[1], NULL, 0) : 0;
    uint64_t mapped, size, address;
    uint32_t key;

    map_page();
    key = find_file();
    mapped = linear(key, &size);
    if (!mapped || !size) {
        printf("the window is not mapped\n");
        return 1;
    }
    while (count--) {
        address = some_address(mapped);
        page->words[0] = htole64(address);
        page->words[1] = page->words[2] = some();
        switch (some() % 8) {
        case 0:
            /* Too short, too long, or more than there is */
            if (access_device(key | SELECT | WRITE,
                              some() % 2 ? 1 + some() % 7 : 9 + some() % 24)) {
                check(key, 0);
            }
            break;
        case 1:
            access_device(key | SELECT | SKIP, 8);
            if (!access_device(WRITE, 8)) {
                fail("fw_cfg");
            }
            check(key, 0);
            break;
        default:
            if (!access_device(key | SELECT | WRITE, 8)) {
                fail("fw_cfg");
            }
            check(key, is_possible(address, size) ? address : 0);
            break;
        }
    }
    page->words[0] = htole64(mapped);
    if (!access_device(key | SELECT | WRITE, 8)) {
        fail("fw_cfg");
    }
    check(key, mapped);
    return 0;
}
