/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Blocks of decoded instructions: see linked-blocks.h
 */

#include <string.h>

#include <glib.h>
#include <Zydis/Zydis.h>

#include "pt/linked-blocks.h"
#include "symbolize/x86-decode.h"
#include "util/hash.h"

#define MEMORY      (64u << 20)
#define PAGE        4096u
#define LONGEST     15
/* One bit for each byte where an instruction can begin */
#define SPAN        64
/* Of a block that is found no more: no address space has bits 2 to 4. */
#define DEAD        UINT64_C(0x1c)
/* Blocks that were looked up last, by a cheap hash of their addresses */
#define RECENT      (1u << 14)

struct page {
    uint64_t key[2];                /* address, space */
    uint64_t tsc;
    uint64_t records;
    struct linked_block *first;
};

struct linked_blocks {
    pt_code_fn *code;
    void *opaque;
    ZydisDecoder decoders[3];
    struct linked_block *arena;
    size_t n, size;
    struct linked_block **heads;
    unsigned shift;
    struct linked_block *recent[RECENT];
    GHashTable *pages;
    uint64_t until_tsc;
    uint64_t until_records;
    struct linked_blocks_count count;
};

/* What one block is made of */
struct linked_making {
    struct linked_blocks *b;
    struct linked_block *block;
    uint64_t cr3;
    unsigned bits;
    const struct pt_moment *moment;
    enum pt_code_result result;
    struct pt_code code;            /* none if its size is 0 */
    uint64_t at;                    /* of its first byte */
    bool listed;                    /* a page has the block */
};

static void init_decoder(ZydisDecoder *d, unsigned mode)
{
    static const struct {
        ZydisMachineMode mode;
        ZydisStackWidth width;
    } modes[] = {
        { ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64 },
        { ZYDIS_MACHINE_MODE_LONG_COMPAT_32, ZYDIS_STACK_WIDTH_32 },
        { ZYDIS_MACHINE_MODE_REAL_16, ZYDIS_STACK_WIDTH_16 },
    };

    ZydisDecoderInit(d, modes[mode].mode, modes[mode].width);
    /* Half the time: there is no more than what kind_of() looks at. */
    ZydisDecoderEnableMode(d, ZYDIS_DECODER_MODE_MINIMAL, ZYAN_TRUE);
}

struct linked_blocks *linked_blocks_new(size_t memory, pt_code_fn *code,
                                        void *opaque)
{
    struct linked_blocks *b = g_new0(struct linked_blocks, 1);
    unsigned bits = 1;

    b->code = code;
    b->opaque = opaque;
    for (unsigned i = 0; i < G_N_ELEMENTS(b->decoders); i++) {
        init_decoder(&b->decoders[i], i);
    }
    b->size = MAX((memory ? memory : MEMORY) / sizeof(*b->arena), 64);
    /* What is not used of it takes no memory. */
    b->arena = g_malloc_n(b->size, sizeof(*b->arena));
    while (bits < 30 && (size_t)2 << bits < b->size) {
        bits++;
    }
    b->shift = 64 - bits;
    b->heads = g_new0(struct linked_block *, (size_t)1 << bits);
    b->pages = g_hash_table_new_full(btrail_pair_hash, btrail_pair_equal,
                                     g_free, NULL);
    b->until_tsc = b->until_records = UINT64_MAX;
    return b;
}

void linked_blocks_free(struct linked_blocks *b)
{
    if (b) {
        g_hash_table_unref(b->pages);
        g_free(b->heads);
        g_free(b->arena);
        g_free(b);
    }
}

uint64_t linked_blocks_until_tsc(const struct linked_blocks *b)
{
    return b->until_tsc;
}

uint64_t linked_blocks_until_records(const struct linked_blocks *b)
{
    return b->until_records;
}

const struct linked_blocks_count *
linked_blocks_counted(const struct linked_blocks *b)
{
    return &b->count;
}

static void flush(struct linked_blocks *b)
{
    memset(b->heads, 0, sizeof(*b->heads) << (64 - b->shift));
    memset(b->recent, 0, sizeof(b->recent));
    g_hash_table_remove_all(b->pages);
    b->n = 0;
    b->until_tsc = b->until_records = UINT64_MAX;
    b->count.flushed++;
}

/* Lets no link lead to it, and none find it. */
static void kill_block(struct linked_block *block)
{
    for (struct linked_block_link *l = block->linked; l; l = l->next) {
        l->to = NULL;
    }
    block->linked = NULL;
    block->space = DEAD;
}

static uint64_t page_of(uint64_t address)
{
    return address & -(uint64_t)PAGE;
}

static void kill_page(struct linked_blocks *b, struct page *page)
{
    struct linked_block *block = page->first;

    while (block) {
        struct linked_block *next =
            block->on_page[page_of(block->start) != page->key[0]];

        kill_block(block);
        block = next;
    }
    b->count.changed++;
}

void linked_blocks_change(struct linked_blocks *b, uint64_t cr3,
                          uint64_t address)
{
    for (unsigned mode = 0; mode < 3; mode++) {
        uint64_t key[] = {
            page_of(address),
            linked_block_space(cr3, address, mode == 0 ? 64 :
                                             mode == 1 ? 32 : 16),
        };
        struct page *page = g_hash_table_lookup(b->pages, key);

        if (page) {
            kill_page(b, page);
            g_hash_table_remove(b->pages, key);
        }
    }
}

void linked_blocks_expire(struct linked_blocks *b,
                          const struct pt_moment *moment, bool gap)
{
    GHashTableIter i;
    void *p;

    if (moment->tsc < b->until_tsc && moment->records < b->until_records &&
        (!gap || b->until_records == UINT64_MAX)) {
        return;
    }
    b->until_tsc = b->until_records = UINT64_MAX;
    g_hash_table_iter_init(&i, b->pages);
    while (g_hash_table_iter_next(&i, &p, NULL)) {
        struct page *page = p;

        if (moment->tsc >= page->tsc || moment->records >= page->records ||
            (gap && page->records != UINT64_MAX)) {
            kill_page(b, page);
            g_hash_table_iter_remove(&i);
        } else {
            b->until_tsc = MIN(b->until_tsc, page->tsc);
            b->until_records = MIN(b->until_records, page->records);
        }
    }
}

/* Makes the block one of a page, whose code the provider has given. */
static void add_to_page(struct linked_making *m, uint64_t address)
{
    struct linked_blocks *b = m->b;
    uint64_t key[] = { page_of(address), m->block->space };
    struct page *page = g_hash_table_lookup(b->pages, key);
    bool second = key[0] != page_of(m->block->start);

    if (!page) {
        page = g_new0(struct page, 1);
        memcpy(page->key, key, sizeof(key));
        page->tsc = page->records = UINT64_MAX;
        g_hash_table_add(b->pages, page);
    }
    page->tsc = MIN(page->tsc, m->code.tsc);
    page->records = MIN(page->records, m->code.records);
    b->until_tsc = MIN(b->until_tsc, page->tsc);
    b->until_records = MIN(b->until_records, page->records);
    if (page->first != m->block) {
        m->block->on_page[second] = page->first;
        page->first = m->block;
        m->listed = true;
    }
}

/* The bytes at an address; returns how many, up to the end of what is given. */
static size_t code_at(struct linked_making *m, uint64_t address)
{
    if (address - m->at >= m->code.size) {
        m->code = (struct pt_code){ .tsc = UINT64_MAX, .records = UINT64_MAX };
        m->result = m->b->code(m->b->opaque, m->cr3, address, m->moment,
                               &m->code);
        if (m->result != PT_CODE_READ) {
            m->code.size = 0;
            return 0;
        }
        m->at = address;
        m->code.size = MIN(m->code.size, PAGE - address % PAGE);
        add_to_page(m, address);
    }
    return m->code.size - (address - m->at);
}

static bool decode(struct linked_making *m, uint64_t address,
                   ZydisDecodedInstruction *zi)
{
    const ZydisDecoder *d = &m->b->decoders[m->bits == 64 ? 0 :
                                            m->bits == 32 ? 1 : 2];
    uint8_t both[LONGEST];
    size_t n = code_at(m, address), size;
    const uint8_t *bytes;
    ZyanStatus status;
    const char *text;

    if (!n) {
        return false;
    }
    bytes = m->code.bytes + (address - m->at);
    status = x86_decode(d, bytes, MIN(n, LONGEST), zi, &text);
    if (status != ZYDIS_STATUS_NO_MORE_DATA || n >= LONGEST) {
        return ZYAN_SUCCESS(status);
    }
    /* The rest of it is in the next page, or in what is given next. */
    memcpy(both, bytes, n);
    while (n < LONGEST && (size = code_at(m, address + n))) {
        size = MIN(size, LONGEST - n);
        memcpy(both + n, m->code.bytes + (address + n - m->at), size);
        n += size;
    }
    return ZYAN_SUCCESS(x86_decode(d, both, n, zi, &text));
}

/* Does a CALL, JMP or RET change CS? */
static bool is_far(const ZydisDecodedInstruction *zi)
{
    switch (zi->opcode) {
    case 0x9a:
    case 0xca:
    case 0xcb:
    case 0xea:
        return true;
    case 0xff:
        return zi->raw.modrm.reg == 3 || zi->raw.modrm.reg == 5;
    default:
        return false;
    }
}

static enum linked_kind kind_of(const ZydisDecodedInstruction *zi,
                                bool direct)
{
    bool far = is_far(zi);

    switch (zi->mnemonic) {
    case ZYDIS_MNEMONIC_CALL:
        return far ? LINKED_FAR : direct ? LINKED_CALL : LINKED_CALL_TO;
    case ZYDIS_MNEMONIC_JMP:
        return far ? LINKED_FAR : direct ? LINKED_JUMP : LINKED_JUMP_TO;
    case ZYDIS_MNEMONIC_RET:
        return far ? LINKED_FAR : LINKED_RET;
    case ZYDIS_MNEMONIC_IRET:
    case ZYDIS_MNEMONIC_IRETD:
    case ZYDIS_MNEMONIC_IRETQ:
    case ZYDIS_MNEMONIC_UIRET:
    case ZYDIS_MNEMONIC_SYSCALL:
    case ZYDIS_MNEMONIC_SYSENTER:
    case ZYDIS_MNEMONIC_SYSRET:
    case ZYDIS_MNEMONIC_SYSEXIT:
    case ZYDIS_MNEMONIC_RSM:
    case ZYDIS_MNEMONIC_INT:
    case ZYDIS_MNEMONIC_INT1:
    case ZYDIS_MNEMONIC_INT3:
        return LINKED_FAR;
    case ZYDIS_MNEMONIC_MOV:
        if (zi->opcode_map == ZYDIS_OPCODE_MAP_0F && zi->opcode == 0x22) {
            return zi->raw.modrm.reg == 3 ? LINKED_CR3 : LINKED_CR;
        }
        return LINKED_ON;
    case ZYDIS_MNEMONIC_JB:
    case ZYDIS_MNEMONIC_JBE:
    case ZYDIS_MNEMONIC_JCXZ:
    case ZYDIS_MNEMONIC_JECXZ:
    case ZYDIS_MNEMONIC_JL:
    case ZYDIS_MNEMONIC_JLE:
    case ZYDIS_MNEMONIC_JNB:
    case ZYDIS_MNEMONIC_JNBE:
    case ZYDIS_MNEMONIC_JNL:
    case ZYDIS_MNEMONIC_JNLE:
    case ZYDIS_MNEMONIC_JNO:
    case ZYDIS_MNEMONIC_JNP:
    case ZYDIS_MNEMONIC_JNS:
    case ZYDIS_MNEMONIC_JNZ:
    case ZYDIS_MNEMONIC_JO:
    case ZYDIS_MNEMONIC_JP:
    case ZYDIS_MNEMONIC_JRCXZ:
    case ZYDIS_MNEMONIC_JS:
    case ZYDIS_MNEMONIC_JZ:
    case ZYDIS_MNEMONIC_LOOP:
    case ZYDIS_MNEMONIC_LOOPE:
    case ZYDIS_MNEMONIC_LOOPNE:
        return LINKED_CONDITIONAL;
    default:
        return LINKED_ON;
    }
}

/* Does a hypervisor execute it, as those that do not let the guest do it? */
static bool exits(const ZydisDecodedInstruction *zi)
{
    switch (zi->mnemonic) {
    case ZYDIS_MNEMONIC_HLT:
    case ZYDIS_MNEMONIC_CPUID:
    case ZYDIS_MNEMONIC_RDMSR:
    case ZYDIS_MNEMONIC_WRMSR:
    case ZYDIS_MNEMONIC_IN:
    case ZYDIS_MNEMONIC_OUT:
    case ZYDIS_MNEMONIC_VMCALL:
        return true;
    default:
        return false;
    }
}

static uint64_t target(const struct linked_making *m,
                       const ZydisDecodedInstruction *zi, uint64_t next)
{
    uint64_t to = next + zi->raw.imm[0].value.s;

    if (m->bits == 64) {
        return to;
    }
    /*
     * In 16-bit mode IP wraps within its segment, and where that begins is not
     * known.
     */
    return to & (m->bits == 32 && zi->operand_width == 16 ? UINT16_MAX :
                                                            UINT32_MAX);
}

/* Decodes instructions up to one that ends the block. */
static bool make(struct linked_making *m)
{
    struct linked_block *block = m->block;
    uint64_t mask = m->bits == 64 ? UINT64_MAX : UINT32_MAX;

    block->next = block->start;
    block->kind = LINKED_ON;
    while (block->next - block->start < SPAN) {
        ZydisDecodedInstruction zi;
        enum linked_kind kind;
        bool direct;

        if (!decode(m, block->next, &zi)) {
            /* Who gets there finds out. */
            return block->instructions;
        }
        direct = zi.attributes & ZYDIS_ATTRIB_IS_RELATIVE &&
                 zi.raw.imm[0].is_relative;
        kind = kind_of(&zi, direct);
        block->from = block->next;
        block->starts |= UINT64_C(1) << (block->from - block->start);
        block->next = (block->from + zi.length) & mask;
        if (!block->instructions++) {
            block->length = zi.length;
            block->exits = exits(&zi);
        }
        if (kind != LINKED_ON) {
            block->kind = kind;
            if (direct) {
                block->taken = target(m, &zi, block->next);
            }
            return true;
        }
    }
    return true;
}

static struct linked_block **slot_of(struct linked_blocks *b, uint64_t space,
                                     uint64_t address)
{
    return &b->heads[btrail_hash2(address, space) >> b->shift];
}

struct linked_block *linked_blocks_at(struct linked_blocks *b, uint64_t cr3,
                                      unsigned bits, uint64_t address,
                                      const struct pt_moment *moment,
                                      enum pt_code_result *result,
                                      bool *flushed)
{
    uint64_t space = linked_block_space(cr3, address, bits);
    struct linked_block **recent =
        &b->recent[(address ^ address >> 14 ^ space >> 12) % RECENT];
    struct linked_block **slot = slot_of(b, space, address);
    struct linked_making m;

    *flushed = false;
    *result = PT_CODE_READ;
    if (*recent && (*recent)->start == address && (*recent)->space == space) {
        return *recent;
    }
    for (struct linked_block **p = slot; *p;) {
        if ((*p)->space == DEAD) {
            *p = (*p)->chain;
            continue;
        }
        if ((*p)->start == address && (*p)->space == space) {
            return *recent = *p;
        }
        p = &(*p)->chain;
    }
    if (b->n == b->size) {
        flush(b);
        *flushed = true;
    }
    m = (struct linked_making){
        .b = b, .block = &b->arena[b->n++], .cr3 = cr3, .bits = bits,
        .moment = moment,
    };
    memset(m.block, 0, sizeof(*m.block));
    m.block->start = address;
    m.block->space = space;
    if (!make(&m)) {
        m.block->space = DEAD;
        if (!m.listed) {
            b->n--;
        }
        *result = m.result;
        return NULL;
    }
    b->count.made++;
    m.block->chain = *slot;
    *slot = m.block;
    return *recent = m.block;
}

struct linked_block *linked_blocks_follow(struct linked_blocks *b,
                                          struct linked_block *from,
                                          unsigned n, uint64_t cr3,
                                          unsigned bits,
                                          const struct pt_moment *moment,
                                          enum pt_code_result *result,
                                          bool *flushed)
{
    struct linked_block *to =
        linked_blocks_at(b, cr3, bits, n ? from->taken : from->next, moment,
                         result, flushed);

    /* In another address space the same address is another block. */
    if (to && !*flushed && !from->link[n].to && to->space == from->space) {
        from->link[n].to = to;
        from->link[n].next = to->linked;
        to->linked = &from->link[n];
    }
    return to;
}
