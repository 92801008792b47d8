/*
 * Conditions of GDB's breakpoints
 *
 * They are set while no vCPU runs, and evaluated by vCPUs that run.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/ctype.h"
#include "qemu/cutils.h"
#include "exec/gdbstub.h"
#include "exec/tswap.h"
#include "gdbstub/conditions.h"
#include "hw/core/cpu.h"
#include "agent-expression.h"
#include "internals.h"

/* GDB_BREAKPOINT_SW and GDB_BREAKPOINT_HW */
#define TYPES   2

/* The breakpoints at an address */
typedef struct Site {
    uint64_t addr;
    bool inserted[TYPES];
    GPtrArray *conditions[TYPES];       /* GBytes; NULL: none */
} Site;

static GHashTable *sites;

static void unref_bytes(gpointer bytes)
{
    g_bytes_unref(bytes);
}

static void free_site(gpointer opaque)
{
    Site *site = opaque;

    for (int i = 0; i < TYPES; i++) {
        g_clear_pointer(&site->conditions[i], g_ptr_array_unref);
    }
    g_free(site);
}

static Site *find(vaddr addr)
{
    uint64_t key = addr;

    return sites ? g_hash_table_lookup(sites, &key) : NULL;
}

/* The next condition; NULL if there is none.  *@text is then after it. */
static GBytes *parse_one(const char **text)
{
    g_autofree uint8_t *bytes = NULL;
    unsigned long size;

    if (**text != 'X' ||
        qemu_strtoul(*text + 1, text, 16, &size) || **text != ',' ||
        size > MAX_PACKET_LENGTH / 2) {
        return NULL;
    }
    ++*text;
    bytes = g_malloc(size);
    for (unsigned long i = 0; i < size; i++, *text += 2) {
        if (!qemu_isxdigit((*text)[0]) || !qemu_isxdigit((*text)[1])) {
            return NULL;
        }
        bytes[i] = fromhex((*text)[0]) << 4 | fromhex((*text)[1]);
    }
    return g_bytes_new_take(g_steal_pointer(&bytes), size);
}

GPtrArray *gdb_conditions_parse(const char *text)
{
    g_autoptr(GPtrArray) conditions = g_ptr_array_new_with_free_func(
        unref_bytes);

    do {
        GBytes *bytes = parse_one(&text);

        if (!bytes) {
            return NULL;
        }
        g_ptr_array_add(conditions, bytes);
    } while (*text);
    return g_steal_pointer(&conditions);
}

void gdb_conditions_set(unsigned type, vaddr addr, GPtrArray *conditions)
{
    Site *site = find(addr);

    assert(type < TYPES);
    if (!site) {
        site = g_new0(Site, 1);
        site->addr = addr;
        if (!sites) {
            sites = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL,
                                          free_site);
        }
        g_hash_table_insert(sites, &site->addr, site);
    }
    site->inserted[type] = true;
    g_clear_pointer(&site->conditions[type], g_ptr_array_unref);
    site->conditions[type] = conditions;
}

void gdb_conditions_remove(unsigned type, vaddr addr)
{
    Site *site = find(addr);

    if (site && type < TYPES) {
        site->inserted[type] = false;
        g_clear_pointer(&site->conditions[type], g_ptr_array_unref);
        if (!site->inserted[!type]) {
            g_hash_table_remove(sites, &site->addr);
        }
    }
}

void gdb_conditions_remove_all(void)
{
    if (sites) {
        g_hash_table_remove_all(sites);
    }
}

bool gdb_conditions_known(unsigned type, vaddr addr)
{
    Site *site = find(addr);

    return site && type < TYPES && site->inserted[type];
}

static bool read_reg(void *opaque, unsigned number, uint64_t *value)
{
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    int size = gdb_read_register(opaque, bytes, number);

    if (size <= 0 || size > 8 || bytes->len != size) {
        return false;
    }
    *value = target_words_bigendian() ? ldn_be_p(bytes->data, size)
                                      : ldn_le_p(bytes->data, size);
    return true;
}

static bool read_memory(void *opaque, uint64_t addr, unsigned size,
                        uint64_t *value)
{
    uint8_t bytes[8];

    if (!gdb_read_ram(opaque, addr, bytes, size)) {
        return false;
    }
    *value = target_words_bigendian() ? ldn_be_p(bytes, size)
                                      : ldn_le_p(bytes, size);
    return true;
}

/* One that cannot be evaluated holds: GDB then does it itself. */
static bool holds(CPUState *cpu, GPtrArray *conditions)
{
    const AgentTarget target = {
        .reg = read_reg,
        .memory = read_memory,
        .opaque = cpu,
    };

    for (guint i = 0; i < conditions->len; i++) {
        size_t size;
        const uint8_t *code = g_bytes_get_data(
            g_ptr_array_index(conditions, i), &size);
        uint64_t value;

        if (!agent_expression_value(code, size, &target, &value) || value) {
            return true;
        }
    }
    return false;
}

bool gdb_breakpoint_holds(CPUState *cpu, vaddr pc)
{
    Site *site = find(pc);

    if (!site) {
        return true;
    }
    for (int i = 0; i < TYPES; i++) {
        if (site->inserted[i] && (!site->conditions[i] ||
                                  holds(cpu, site->conditions[i]))) {
            return true;
        }
    }
    return false;
}

bool gdb_at_breakpoint(CPUState *cpu)
{
    vaddr pc = cpu->cc->get_pc(cpu);

    return find(pc) && gdb_breakpoint_holds(cpu, pc);
}
