/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: the memory of a guest
 *
 * The input changes that of tests/unit/fake-linux.c: two bytes of its flags,
 * and then writes, each a u24 offset, a u8 length and that many bytes.  After
 * one with offset 0xffffff come those that the guest makes when its kernel has
 * been found.  Whatever it has, the result must be a snapshot that can be
 * written, in bounded time.
 */

#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "fake-linux.h"
#include "fuzz.h"
#include "guest-linux/file-functions.h"
#include "guest-linux/loaded.h"
#include "guest-linux/own-symbols.h"
#include "guest-linux/symbol-lines.h"
#include "guest-linux/syscalls.h"
#include "guest-linux/tasks.h"

#define LATER   0xffffffu

static uint64_t now;

static uint64_t tick(void)
{
    return ++now;
}

/* Make writes up to LATER. */
static void change(struct fake_linux *f, const uint8_t **data, size_t *size)
{
    while (*size >= 4) {
        uint32_t offset = (uint32_t)((*data)[0] | (*data)[1] << 8 |
                                     (*data)[2] << 16);
        size_t n = MIN((*data)[3], *size - 4);

        if (offset < FAKE_SIZE) {
            memcpy(f->memory + offset, *data + 4, MIN(n, FAKE_SIZE - offset));
        }
        *data += 4 + n;
        *size -= 4 + n;
        if (offset == LATER) {
            break;
        }
    }
}

static bool is_known(struct btrail_process *p, uint64_t shape, void *opaque)
{
    return (p->pid ^ shape) & 1;
}

static void ignore(const uint8_t *data, size_t size, void *opaque)
{
    fuzz_require(size && data[size - 1] == data[size - 1]);
}

static void read_functions(const struct linux_mapped_file *mapped,
                           void *opaque)
{
    struct linux_file file = { .k = opaque, .mapping = mapped->mapping,
                               .budget = 100 };
    struct linux_functions found;

    linux_file_functions(&file, mapped->build_id, mapped->build_id_size,
                         &found);
    g_clear_pointer(&found.data, g_byte_array_unref);
}

static void look_at(struct linux_kernel *k, linux_known *known)
{
    struct btrail_snapshot *snapshot = linux_snapshot(k, tick, known, NULL);
    struct btrail_snapshot *again;
    size_t size;
    void *data;

    fuzz_require(!btrail_snapshot_encode(snapshot, &data, &size));
    fuzz_require(!btrail_snapshot_decode(&again, data, size));
    fuzz_require(again->n == snapshot->n);
    btrail_snapshot_free(again);
    free(data);
    linux_vdsos(k, snapshot, ignore, NULL);
    linux_executed_files(snapshot, read_functions, k);
    linux_snapshot_free(snapshot);
}

static void add_text(void *opaque, const char *text, size_t size)
{
    g_string_append_len(opaque, text, (gssize)size);
}

/* The same memory, if the kernel is to be found as one that boots */
static void try_booting(const struct guest_memory *m)
{
    struct linux_kernel *k = linux_kernel_find_booting(m, FAKE_ROOT);

    if (k) {
        fuzz_require(k->tasks && k->booting);
        fuzz_require(linux_kernel_complete(k) != k->booting);
        linux_kernel_free(k);
    }
}

int fuzz_input(const uint8_t *data, size_t size)
{
    static struct fake_linux kinds[FAKE_FLAGS];
    struct fake_linux f;
    struct guest_memory *m;
    struct linux_kernel *k;
    GString *symbols;
    unsigned flags;
    char *why;

    if (size < 2) {
        return 0;
    }
    flags = (data[0] | (unsigned)data[1] << 8) % G_N_ELEMENTS(kinds);
    data += 2;
    size -= 2;
    if (!kinds[flags].memory) {
        fake_linux_init(&kinds[flags], flags);
    }
    f = kinds[flags];
    f.memory = g_memdup2(f.memory, FAKE_SIZE);
    change(&f, &data, &size);
    m = guest_memory_new();
    fuzz_require(guest_memory_add_bytes(m, 0, FAKE_SIZE, f.memory));
    k = linux_kernel_find(m, 0, 0, 0, &why);
    fuzz_require(!k == !!why);
    g_free(why);
    try_booting(m);
    if (k) {
        fuzz_accepted();
        change(&f, &data, &size);
        linux_kernel_begin(k);
        symbols = g_string_new(NULL);
        linux_own_symbols(k, add_text, symbols);
        fuzz_require(symbols->len <= LINUX_SYMBOLS_MAX);
        g_string_free(symbols, TRUE);
        symbols = linux_loaded_symbols(k);
        if (symbols) {
            fuzz_require(symbols->len <= LINUX_SYMBOLS_MAX);
            g_string_free(symbols, TRUE);
        }
        g_string_free(linux_syscalls(k), TRUE);
        linux_loaded_hash(k);
        fuzz_require(k->tasks || k->missing->len);
        if (k->tasks) {
            look_at(k, NULL);
            look_at(k, is_known);
        }
        linux_kernel_remains(k);
        linux_kernel_free(k);
    }
    guest_memory_free(m);
    g_free(f.memory);
    return 0;
}
