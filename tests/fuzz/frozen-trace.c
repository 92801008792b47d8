/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: rings of two vCPUs, and the memory of their guest
 *
 *     0   u8   options: FUZZ_*
 *     1   u8   levels of page tables, less 1
 *     2   u16  where the ring of vCPU 0 wraps
 *     4   u8   how many pieces of memory follow; each is
 *              u16 address, u8 size, and bytes
 *         u16  bytes of the ring of vCPU 0
 *         its bytes, and then the ring of vCPU 1
 *
 * The guest has 64 KiB.  Whatever comes, the trace breaks no rule of the format
 * and has what is counted, each byte is counted once, and the same comes of any
 * number of threads.
 */

#include <glib.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "pt/code-writes.h"
#include "pt/frozen-code.h"
#include "pt/frozen-trace.h"
#include "pt/settled-code.h"
#include "pt/written-code.h"

#define FUZZ_RETURNS    1
#define FUZZ_CLOCK      2
#define FUZZ_PAE        4
#define FUZZ_WRAPPED    8
#define FUZZ_LINEAR     16
#define FUZZ_TWICE      32
#define FUZZ_MODES      64

#define MEMORY          65536
#define VCPUS           2

struct world {
    uint8_t memory[MEMORY];
    unsigned levels;
    bool twice;
    struct frozen_options o;
    struct frozen_stream streams[VCPUS];
};

/* Returns false if the input ends before. */
static bool get(const uint8_t **p, const uint8_t *end, void *to, size_t size)
{
    if ((size_t)(end - *p) < size) {
        return false;
    }
    memcpy(to, *p, size);
    *p += size;
    return true;
}

static bool parse(struct world *w, const uint8_t *p, const uint8_t *end)
{
    uint8_t options, levels, pieces, size;
    uint16_t split, address, first;
    struct frozen_stream *s = w->streams;

    if (!get(&p, end, &options, 1) || !get(&p, end, &levels, 1) ||
        !get(&p, end, &split, 2) || !get(&p, end, &pieces, 1)) {
        return false;
    }
    for (unsigned i = 0; i < pieces; i++) {
        if (!get(&p, end, &address, 2) || !get(&p, end, &size, 1)) {
            return false;
        }
        size = MIN(size, MEMORY - address);
        if (!get(&p, end, w->memory + address, size)) {
            return false;
        }
    }
    if (!get(&p, end, &first, 2)) {
        return false;
    }
    first = MIN(first, end - p);
    split = MIN(split, first);
    w->levels = 1 + levels % 5;
    w->twice = options & FUZZ_TWICE;
    w->o.flow.returns = options & FUZZ_RETURNS;
    w->o.flow.linear = options & FUZZ_LINEAR;
    w->o.flow.modes = options & FUZZ_MODES;
    w->o.flow.memory = 1 << 18;
    w->o.pae = options & FUZZ_PAE;
    if (options & FUZZ_CLOCK) {
        w->o.clock = (struct vcpu_trace_clock){ 1000, 100000, 90000000000, 5 };
    }
    s[0].bytes[0] = p;
    s[0].size[0] = split;
    s[0].bytes[1] = p + split;
    s[0].size[1] = first - split;
    s[0].wrapped = options & FUZZ_WRAPPED;
    s[1].vcpu = 7;
    s[1].bytes[0] = p + first;
    s[1].size[0] = end - p - first;
    return true;
}

static void check(int fd, const struct frozen_count *count)
{
    struct btrail_verify_result v;
    struct btrail_trace *trace;
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    fuzz_require(!btrail_trace_open(&trace, path));
    fuzz_require(!btrail_verify(trace, 1, NULL, NULL, &v));
    fuzz_require(v.complete && !v.faults && !v.damage);
    fuzz_require(v.records == count->flow.records);
    btrail_trace_close(trace);
    fuzz_require(!count->ended);
    fuzz_require(count->flow.decoded + count->flow.skipped +
                 count->flow.host == count->size);
    fuzz_require(count->spaces.never <= count->spaces.seen);
}

static struct frozen_count decode(struct world *w, unsigned threads)
{
    struct guest_memory *memory = guest_memory_new();
    const struct frozen_code_options code = {
        .levels = w->levels, .pages = 10, .places = 100, .walks = 1000,
    };
    struct frozen_code *codes[VCPUS];
    struct written_code *unwritten[VCPUS];
    struct settled_code *settled[VCPUS];
    /* What writes code is at some addresses of the kernel. */
    uint8_t bits[] = { 0xf0, 0x0f, 0xff, 0 };
    const struct linux_code_writers writers = {
        .start = UINT64_C(0xffffffff81000000), .steps = sizeof(bits) * 8,
        .bits = bits, .count = 2, .image = UINT64_C(0xffffffff81000000),
        .image_end = UINT64_C(0xffffffff81010000),
    };
    struct code_writes_count writes;
    uint64_t after[VCPUS];
    int fd = memfd_create("trace", MFD_CLOEXEC);
    char path[64];
    const struct btrail_store_options options = { path, .replace = true };
    struct frozen_count count;
    struct btrail_store *store;
    struct output *output;

    fuzz_require(fd >= 0);
    fuzz_require(guest_memory_add_bytes(memory, 0, MEMORY, w->memory));
    for (unsigned i = 0; i < VCPUS; i++) {
        codes[i] = frozen_code_new(memory, &code);
        unwritten[i] = written_code_new(memory, w->levels, frozen_code_read,
                                        codes[i]);
        settled[i] = settled_code_new(writers.image, writers.image_end,
                                      written_code_read, unwritten[i]);
        w->streams[i].code = settled_code_read;
        w->streams[i].code_opaque = settled[i];
    }
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    fuzz_require(!btrail_store_open(&store, &options));
    output = output_new(store, NULL, frozen_trace_blocks(VCPUS));
    w->o.threads = threads;
    code_writes_find(&writers, &w->o, w->streams, VCPUS, VCPUS, NULL, NULL,
                     after, &writes);
    for (unsigned i = 0; i < VCPUS; i++) {
        fuzz_require(after[i] <= CODE_WRITES_TSC ||
                     after[i] == CODE_WRITES_NEVER);
        settled_code_set(settled[i], after[i]);
    }
    fuzz_require(!frozen_trace_write(output, &w->o, w->streams, VCPUS,
                                     &count));
    output_finish(output);
    output_free(output);
    fuzz_require(!btrail_store_close(store, NULL));
    check(fd, &count);
    close(fd);
    for (unsigned i = 0; i < VCPUS; i++) {
        settled_code_free(settled[i]);
        written_code_free(unwritten[i]);
        frozen_code_free(codes[i]);
    }
    guest_memory_free(memory);
    return count;
}

int fuzz_input(const uint8_t *data, size_t size)
{
    struct world *w = g_new0(struct world, 1);

    if (parse(w, data, data + size)) {
        struct frozen_count one = decode(w, VCPUS), two;

        if (w->twice) {
            two = decode(w, 1);
            fuzz_require(!memcmp(&one.flow, &two.flow, sizeof(one.flow)));
            fuzz_require(one.spaces.seen == two.spaces.seen &&
                         one.spaces.never == two.spaces.never &&
                         one.pages == two.pages && one.times == two.times);
        }
        if (one.flow.records) {
            fuzz_accepted();
        }
    }
    g_free(w);
    return 0;
}
