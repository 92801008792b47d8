/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Trace a piece of this program with the kernel's own BTS driver, intel_bts
 *
 * The driver is perf's, unmodified: what it leaves in the AUX area is judged
 * by tests that know from objdump what the program does (see ../walk).
 */
#ifndef AUX_H
#define AUX_H

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct record {
    uint64_t from, to, flags;
};

struct aux {
    int fd;
    struct perf_event_mmap_page *page;
    uint8_t *data;
    size_t size;
};

static inline void __attribute__((noreturn, format(printf, 1, 2)))
fail(const char *format, ...)
{
    va_list list;

    printf("RIG: FAIL ");
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    printf("\n");
    exit(1);
}

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fail("%s:%d: %s (%s)", __FILE__, __LINE__, #condition, \
                 strerror(errno)); \
        } \
    } while (0)

/* An event of intel_bts for this thread, not yet enabled, or for process PID
   from its next exec on; after each WATERMARK bytes (0: half the area) the
   driver is interrupted. */
static inline struct aux aux_open_as(pid_t pid, bool kernel, bool user,
                                     size_t size, unsigned watermark,
                                     int protection)
{
    struct perf_event_attr attr = { .size = sizeof(attr) };
    struct aux aux = { .size = size };
    unsigned type;
    FILE *file;

    file = fopen("/sys/bus/event_source/devices/intel_bts/type", "r");
    CHECK(file != NULL);
    CHECK(fscanf(file, "%u", &type) == 1);
    fclose(file);
    attr.type = type;
    attr.disabled = 1;
    attr.enable_on_exec = pid != 0;
    attr.aux_watermark = watermark;
    attr.exclude_kernel = !kernel;
    attr.exclude_user = !user;
    aux.fd = syscall(SYS_perf_event_open, &attr, pid, -1, -1, 0);
    CHECK(aux.fd >= 0);
    aux.page = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, aux.fd,
                    0);
    CHECK(aux.page != MAP_FAILED);
    aux.page->aux_offset = 2 * 4096;
    aux.page->aux_size = size;
    aux.data = mmap(NULL, size, protection, MAP_SHARED, aux.fd, 2 * 4096);
    CHECK(aux.data != MAP_FAILED);
    return aux;
}

static inline struct aux aux_open(bool kernel, bool user, size_t size,
                                  unsigned watermark)
{
    return aux_open_as(0, kernel, user, size, watermark,
                       PROT_READ | PROT_WRITE);
}

/* The same for user mode, that keeps the newest records only */
static inline struct aux aux_open_snapshot(size_t size)
{
    return aux_open_as(0, false, true, size, 0, PROT_READ);
}

static inline void aux_close(struct aux *aux)
{
    munmap(aux->data, aux->size);
    munmap(aux->page, 2 * 4096);
    close(aux->fd);
}

/* How many NMIs there were on the first CPU, by the kernel's own count */
static inline unsigned long aux_nmis(void)
{
    FILE *file = fopen("/proc/interrupts", "r");
    unsigned long count = 0;
    char line[256];

    CHECK(file != NULL);
    while (fgets(line, sizeof(line), file)) {
        if (sscanf(line, " NMI: %lu", &count) == 1) {
            break;
        }
    }
    fclose(file);
    return count;
}

#ifdef __x86_64__
/* For the assembly of what is traced: enable and disable the event by bare
   system calls, so that nothing but what is between them is in the trace. */
#define AUX_IOCTL(request) \
    "   movq    %[ioctl], %%rax\n" \
    "   movq    %[fd], %%rdi\n" \
    "   movq    %[" request "], %%rsi\n" \
    "   xorl    %%edx, %%edx\n" \
    "   syscall\n"
#define AUX_ENABLE      AUX_IOCTL("enable")
#define AUX_DISABLE     AUX_IOCTL("disable")

/* What they need; @fd is a long in memory. */
#define AUX_OPERANDS(fd_) \
    [ioctl] "i"(SYS_ioctl), [fd] "m"(fd_), \
    [enable] "i"(PERF_EVENT_IOC_ENABLE), \
    [disable] "i"(PERF_EVENT_IOC_DISABLE)

/* What they change, and all that the tests do between them */
#define AUX_CLOBBERS \
    "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r11", "memory", "cc"
#endif

/* The records: pieces of the AUX area, each named by an event of perf.  More
   than once around it is an error, as is anything lost. */
static inline struct record *aux_records(struct aux *aux, size_t *count)
{
    const uint8_t *data = (const uint8_t *)aux->page + aux->page->data_offset;
    uint64_t head = aux->page->data_head, at;
    struct record *list = malloc(aux->size);
    struct {
        struct perf_event_header header;
        uint64_t offset, size, flags;
    } event;

    CHECK(list != NULL);
    __sync_synchronize();
    CHECK(head <= aux->page->data_size);
    *count = 0;
    for (at = 0; at < head; at += event.header.size) {
        memcpy(&event, data + at, sizeof(event.header));
        CHECK(event.header.size >= sizeof(event.header));
        CHECK(event.header.type != PERF_RECORD_LOST);
        if (event.header.type != PERF_RECORD_AUX) {
            continue;
        }
        CHECK(event.header.size >= sizeof(event));
        memcpy(&event, data + at, sizeof(event));
        if (event.flags) {
            fail("flags of an AUX event are %llx",
                 (unsigned long long)event.flags);
        }
        CHECK(event.size % sizeof(struct record) == 0);
        CHECK(event.offset + event.size <= aux->size);
        memcpy(list + *count, aux->data + event.offset, event.size);
        *count += event.size / sizeof(struct record);
    }
    return list;
}

/* The records of user mode must be those of ../walk; with returns from the
   kernel, whose "from" is there, in between. */
static inline void aux_is_walk(const struct record *list, size_t count)
{
    FILE *file = fopen("/walk", "r");
    unsigned long long from, to;
    size_t n = 0, seen = 0, returns = 0;

    CHECK(file != NULL);
    while (fscanf(file, "%llx %llx", &from, &to) == 2) {
        while (n < count && list[n].from >> 63) {
            if (list[n].to >> 63) {
                fail("record %zu is the kernel's own", n);
            }
            returns++;
            n++;
        }
        if (n == count) {
            fail("there are %zu records; of %llx -> %llx (%zu) there is none",
                 count, from, to, seen);
        }
        if (list[n].from != from || list[n].to != to) {
            fail("record %zu is %llx -> %llx, not %llx -> %llx", n,
                 (unsigned long long)list[n].from,
                 (unsigned long long)list[n].to, from, to);
        }
        n++;
        seen++;
    }
    fclose(file);
    while (n < count && list[n].from >> 63) {
        returns++;
        n++;
    }
    if (n != count) {
        fail("%zu records too many, first %llx -> %llx", count - n,
             (unsigned long long)list[n].from,
             (unsigned long long)list[n].to);
    }
    printf("%zu branches as they should be, %zu returns from the kernel\n",
           seen, returns);
    fflush(stdout);
}

#endif
