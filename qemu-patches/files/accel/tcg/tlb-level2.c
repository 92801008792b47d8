/*
 * A second level of the TLB, which only the guest flushes
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/bitops.h"
#include "exec/cpu-all.h"
#include "migration/qemu-file-types.h"
#include "migration/vmstate.h"
#include "system/replay.h"
#include "tlb-level2.h"

#define LEAST_BITS  10
/*
 * A guest may have any number of addresses for its pages.  The number is part
 * of what a recording depends on.
 */
#define MAX_ENTRIES (1u << 16)

/* Generations of slots that were never used, and of removed entries */
#define UNUSED      0
#define REMOVED     1

typedef struct Slot {
    uint64_t key;               /* the page, and the mmu_idx */
    hwaddr phys_addr;
    MemTxAttrs attrs;
    uint64_t generation;
    uint8_t prot;
    uint8_t lg_page_size;
    uint8_t tlb_fill_flags;
} Slot;

/*
 * The entries of a mmu_idx are those of its generation: it is flushed by
 * beginning a new one.  Slots of older ones are free, but do not end a search.
 */
typedef struct Mode {
    uint64_t generation;
    uint32_t entries;
    /* The region that covers all large pages, as in CPUTLBDesc */
    vaddr large_page_addr;
    vaddr large_page_mask;
} Mode;

struct TLBLevel2 {
    Mode modes[NB_MMU_MODES];
    uint32_t entries;
    uint32_t used;              /* slots that do not end a search */
    unsigned bits;
    Slot *slots;
    GArray *loaded;             /* Slot */
    Mode loaded_modes[NB_MMU_MODES];
};

QEMU_BUILD_BUG_ON(NB_MMU_MODES > 1 << 8);

static uint64_t key_of(int mmu_idx, vaddr addr)
{
    return (addr & TARGET_PAGE_MASK) | mmu_idx;
}

static int mmu_idx_of(const Slot *slot)
{
    return slot->key & ~TARGET_PAGE_MASK;
}

static bool is_live(const TLBLevel2 *l, const Slot *slot)
{
    return slot->generation == l->modes[mmu_idx_of(slot)].generation;
}

static uint32_t size_of(const TLBLevel2 *l)
{
    return 1u << l->bits;
}

/*
 * The slot of a key, live or not.  If there is none, one that can be used for
 * it.
 */
static Slot *find_slot(const TLBLevel2 *l, uint64_t key)
{
    uint32_t mask = size_of(l) - 1;
    uint32_t i = key * 0x9e3779b97f4a7c15ull >> (64 - l->bits);
    Slot *free_slot = NULL;

    for (;; i++) {
        Slot *slot = &l->slots[i & mask];

        if (slot->generation == UNUSED) {
            return free_slot ?: slot;
        }
        if (slot->key == key) {
            return slot;
        }
        if (!free_slot && !is_live(l, slot)) {
            free_slot = slot;
        }
    }
}

/* Leaves out what is not live; half of the slots are free then. */
static void rebuild(TLBLevel2 *l)
{
    g_autofree Slot *old = l->slots;
    uint32_t size = size_of(l);

    while (l->entries >= size_of(l) / 2) {
        l->bits++;
    }
    l->slots = g_new0(Slot, size_of(l));
    l->used = 0;
    for (uint32_t i = 0; i < size; i++) {
        if (old[i].generation != UNUSED && is_live(l, &old[i])) {
            *find_slot(l, old[i].key) = old[i];
            l->used++;
        }
    }
}

static void begin_generation(TLBLevel2 *l, int mmu_idx)
{
    Mode *mode = &l->modes[mmu_idx];

    l->entries -= mode->entries;
    mode->entries = 0;
    mode->large_page_addr = -1;
    mode->large_page_mask = -1;
    mode->generation++;
}

bool tlb_level2_find(CPUState *cpu, int mmu_idx, vaddr addr,
                     MMUAccessType type, CPUTLBEntryFull *full)
{
    TLBLevel2 *l = cpu->neg.tlb.c.level2;
    const Slot *slot = find_slot(l, key_of(mmu_idx, addr));

    if (slot->key != key_of(mmu_idx, addr) || !is_live(l, slot) ||
        !(slot->prot & (1 << type))) {
        return false;
    }
    *full = (CPUTLBEntryFull) {
        .phys_addr = slot->phys_addr,
        .attrs = slot->attrs,
        .prot = slot->prot,
        .lg_page_size = slot->lg_page_size,
        .tlb_fill_flags = slot->tlb_fill_flags,
    };
    return true;
}

static void add_large_page(Mode *mode, vaddr addr, unsigned lg_page_size)
{
    vaddr mask = -((vaddr)1 << lg_page_size);

    if (mode->large_page_addr == (vaddr)-1) {
        mode->large_page_addr = addr;
    } else {
        mask &= mode->large_page_mask;
        while ((mode->large_page_addr ^ addr) & mask) {
            mask <<= 1;
        }
    }
    mode->large_page_addr &= mask;
    mode->large_page_mask = mask;
}

static void insert(TLBLevel2 *l, const Slot *new)
{
    Slot *slot = find_slot(l, new->key);
    Mode *mode = &l->modes[mmu_idx_of(new)];

    if (slot->generation == UNUSED) {
        l->used++;
    }
    if (slot->key != new->key || !is_live(l, slot)) {
        l->entries++;
        mode->entries++;
    }
    *slot = *new;
    slot->generation = mode->generation;
    if (l->used >= size_of(l) / 4 * 3) {
        rebuild(l);
    }
}

bool tlb_level2_add(CPUState *cpu, int mmu_idx, vaddr addr,
                    const CPUTLBEntryFull *full)
{
    TLBLevel2 *l = cpu->neg.tlb.c.level2;
    Slot slot = {
        .key = key_of(mmu_idx, addr),
        .phys_addr = full->phys_addr & TARGET_PAGE_MASK,
        .attrs = full->attrs,
        .prot = full->prot,
        .lg_page_size = full->lg_page_size,
        .tlb_fill_flags = full->tlb_fill_flags,
    };

    if (full->lg_page_size < TARGET_PAGE_BITS) {
        /* The first level does not keep it, either. */
        return true;
    }
    if (l->entries >= MAX_ENTRIES) {
        return false;
    }
    if (full->lg_page_size > TARGET_PAGE_BITS) {
        add_large_page(&l->modes[mmu_idx], addr & TARGET_PAGE_MASK,
                       full->lg_page_size);
    }
    insert(l, &slot);
    return true;
}

void tlb_level2_flush(CPUState *cpu, uint16_t idxmap)
{
    TLBLevel2 *l = cpu->neg.tlb.c.level2;

    for (; idxmap; idxmap &= idxmap - 1) {
        begin_generation(l, ctz32(idxmap));
    }
}

uint16_t tlb_level2_flush_page(CPUState *cpu, vaddr addr, uint16_t idxmap)
{
    TLBLevel2 *l = cpu->neg.tlb.c.level2;
    uint16_t whole = 0;

    for (; idxmap; idxmap &= idxmap - 1) {
        int mmu_idx = ctz32(idxmap);
        Mode *mode = &l->modes[mmu_idx];
        Slot *slot;

        if ((addr & mode->large_page_mask) == mode->large_page_addr) {
            begin_generation(l, mmu_idx);
            whole |= 1 << mmu_idx;
            continue;
        }
        slot = find_slot(l, key_of(mmu_idx, addr));
        if (slot->key == key_of(mmu_idx, addr) && is_live(l, slot)) {
            slot->generation = REMOVED;
            mode->entries--;
            l->entries--;
        }
    }
    return whole;
}

/* Saving and loading ------------------------------------------------------ */

static int put_entries(QEMUFile *f, void *pv, size_t size,
                       const VMStateField *field, JSONWriter *vmdesc)
{
    CPUState *cpu = pv;
    TLBLevel2 *l = cpu->neg.tlb.c.level2;

    for (int i = 0; i < NB_MMU_MODES; i++) {
        qemu_put_be64(f, l->modes[i].large_page_addr);
        qemu_put_be64(f, l->modes[i].large_page_mask);
    }
    qemu_put_be32(f, l->entries);
    for (uint32_t i = 0; i < size_of(l); i++) {
        Slot *slot = &l->slots[i];

        if (slot->generation != UNUSED && is_live(l, slot)) {
            qemu_put_be64(f, slot->key);
            qemu_put_be64(f, slot->phys_addr);
            /* Only the QEMU that has recorded loads it. */
            qemu_put_buffer(f, (const uint8_t *)&slot->attrs,
                            sizeof(slot->attrs));
            qemu_put_byte(f, slot->prot);
            qemu_put_byte(f, slot->lg_page_size);
            qemu_put_byte(f, slot->tlb_fill_flags);
        }
    }
    return 0;
}

static int get_entries(QEMUFile *f, void *pv, size_t size,
                       const VMStateField *field)
{
    CPUState *cpu = pv;
    TLBLevel2 *l = cpu->neg.tlb.c.level2;
    uint32_t count;

    g_clear_pointer(&l->loaded, g_array_unref);
    for (int i = 0; i < NB_MMU_MODES; i++) {
        l->loaded_modes[i].large_page_addr = qemu_get_be64(f);
        l->loaded_modes[i].large_page_mask = qemu_get_be64(f);
    }
    count = qemu_get_be32(f);
    if (count > MAX_ENTRIES) {
        return -EINVAL;
    }
    l->loaded = g_array_new(false, true, sizeof(Slot));
    for (uint32_t i = 0; i < count; i++) {
        Slot slot = { .key = qemu_get_be64(f) };

        slot.phys_addr = qemu_get_be64(f);
        qemu_get_buffer(f, (uint8_t *)&slot.attrs, sizeof(slot.attrs));
        slot.prot = qemu_get_byte(f);
        slot.lg_page_size = qemu_get_byte(f);
        slot.tlb_fill_flags = qemu_get_byte(f);
        if (mmu_idx_of(&slot) >= NB_MMU_MODES ||
            slot.phys_addr & ~TARGET_PAGE_MASK ||
            slot.lg_page_size < TARGET_PAGE_BITS || slot.lg_page_size >= 64) {
            return -EINVAL;
        }
        g_array_append_val(l->loaded, slot);
    }
    return 0;
}

static const VMStateInfo info_entries = {
    .name = "second level of a TLB",
    .get = get_entries,
    .put = put_entries,
};

static const VMStateDescription vmstate_level2 = {
    .name = "cpu/tlb-level2",
    .version_id = 1,
    .minimum_version_id = 1,
    .fields = (const VMStateField[]) {
        {
            .name = "entries",
            .info = &info_entries,
            .flags = VMS_SINGLE,
        },
        VMSTATE_END_OF_LIST()
    }
};

/* Loading a vCPU flushes its TLB. */
void tlb_level2_post_load(CPUState *cpu)
{
    TLBLevel2 *l = cpu->neg.tlb.c.level2;

    if (!l || !l->loaded) {
        return;
    }
    tlb_level2_flush(cpu, MAKE_64BIT_MASK(0, NB_MMU_MODES));
    for (guint i = 0; i < l->loaded->len; i++) {
        insert(l, &g_array_index(l->loaded, Slot, i));
    }
    for (int i = 0; i < NB_MMU_MODES; i++) {
        l->modes[i].large_page_addr = l->loaded_modes[i].large_page_addr;
        l->modes[i].large_page_mask = l->loaded_modes[i].large_page_mask;
    }
    g_clear_pointer(&l->loaded, g_array_unref);
}

void tlb_level2_init(CPUState *cpu)
{
    TLBLevel2 *l;

    if (replay_mode == REPLAY_MODE_NONE) {
        return;
    }
    l = g_new0(TLBLevel2, 1);
    l->bits = LEAST_BITS;
    for (int i = 0; i < NB_MMU_MODES; i++) {
        l->modes[i].generation = REMOVED;
    }
    l->slots = g_new0(Slot, size_of(l));
    cpu->neg.tlb.c.level2 = l;
    tlb_level2_flush(cpu, MAKE_64BIT_MASK(0, NB_MMU_MODES));
    vmstate_register(NULL, cpu->cpu_index, &vmstate_level2, cpu);
}

void tlb_level2_destroy(CPUState *cpu)
{
    TLBLevel2 *l = cpu->neg.tlb.c.level2;

    if (l) {
        vmstate_unregister(NULL, &vmstate_level2, cpu);
        g_clear_pointer(&l->loaded, g_array_unref);
        g_free(l->slots);
        g_clear_pointer(&cpu->neg.tlb.c.level2, g_free);
    }
}
