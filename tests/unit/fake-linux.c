/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A small kernel: see fake-linux.h
 */

#include <bpf/btf.h>
#include <elf.h>
#include <glib.h>
#include <string.h>

#include "fake-linux.h"

/* Pages of the memory */
enum {
    PML4, PDPT, PD, PT,                 /* of the kernel */
    USER_PML4, USER_PTI, USER_PDPT, USER_PD, USER_PT, USER_PAGE,
    NOTE = FAKE_NOTE, SYMBOLS, BTF = SYMBOLS + 3, STRUCTS = FAKE_STRUCTS,
    VMEMMAP = STRUCTS + 5,
};

#define PRESENT         UINT64_C(7)
#define NX              (UINT64_C(1) << 63)
#define ARRAY_BYTES     64
#define PAGE_BYTES      64              /* of a struct page */
#define UPTODATE        2               /* its flag */

static const struct member {
    const char *type;
    const char *path;
    uint32_t sizes;
} members[] = {
#define X(name, type, path, sizes, lost) { type, path, sizes },
    LINUX_LAYOUT(X)
#undef X
};

static uint64_t page_address(const struct fake_linux *f, unsigned page)
{
    return f->stext + (uint64_t)page * GUEST_PAGE_SIZE;
}

uint8_t *fake_linux_at(struct fake_linux *f, uint64_t address)
{
    g_assert_cmphex(address, >=, f->stext);
    g_assert_cmphex(address, <, f->stext + FAKE_SIZE);
    return f->memory + (address - f->stext);
}

void fake_linux_put64(struct fake_linux *f, uint64_t address,
                      uint32_t offset, uint64_t value)
{
    value = GUINT64_TO_LE(value);
    memcpy(fake_linux_at(f, address + offset), &value, sizeof(value));
}

void fake_linux_put32(struct fake_linux *f, uint64_t address,
                      uint32_t offset, uint32_t value)
{
    value = GUINT32_TO_LE(value);
    memcpy(fake_linux_at(f, address + offset), &value, sizeof(value));
}

static void put_entry(struct fake_linux *f, unsigned page, unsigned i,
                      unsigned to, uint64_t flags)
{
    fake_linux_put64(f, page_address(f, page), i * 8,
                     (uint64_t)to * GUEST_PAGE_SIZE | flags);
}

static void make_tables(struct fake_linux *f, bool pti)
{
    unsigned i;

    put_entry(f, PML4, 511, PDPT, PRESENT);
    put_entry(f, PDPT, 510, PD, PRESENT);
    put_entry(f, PD, 8, PT, PRESENT);
    for (i = 0; i < FAKE_PAGES; i++) {
        put_entry(f, PT, i, i, PRESENT);
    }
    put_entry(f, USER_PML4, 511, PDPT, PRESENT);
    put_entry(f, USER_PML4, 0, USER_PDPT, PRESENT | (pti ? NX : 0));
    if (pti) {
        put_entry(f, USER_PTI, 0, USER_PDPT, PRESENT);
    }
    put_entry(f, USER_PDPT, 0, USER_PD, PRESENT);
    put_entry(f, USER_PD, FAKE_USER >> 21, USER_PT, PRESENT);
    put_entry(f, USER_PT, 0, USER_PAGE, PRESENT);
}

/* Those of a kernel of 32 bits: what it needs, at the beginning of memory */
static void make_tables_32(struct fake_linux *f, bool pae)
{
    for (unsigned i = 0; i < FAKE_PAGES; i++) {
        uint32_t entry = (uint32_t)(i * GUEST_PAGE_SIZE | PRESENT);

        fake_linux_put32(f, page_address(f, PT), i * (pae ? 8 : 4), entry);
    }
    if (pae) {
        put_entry(f, PML4, 3, PD, 1);
        put_entry(f, PD, 0, PT, PRESENT);
    } else {
        fake_linux_put32(f, page_address(f, PML4), 0xc00,
                         PT * GUEST_PAGE_SIZE | PRESENT);
    }
}

/* Types of members, by their sizes */
struct types {
    int character, number, pointer, list, array;
    bool least;                 /* of the sizes that a member can have */
};

static uint32_t size_of(const struct types *t, const struct member *m)
{
    return !m->sizes ? 0 : t->least ? m->sizes & -m->sizes :
           1u << (31 - __builtin_clz(m->sizes));
}

static int type_of(const struct types *t, const struct member *m)
{
    uint32_t size = size_of(t, m);

    return size == 1 ? t->character : size == 4 ? t->number :
           size == 8 ? t->pointer : size == 16 ? t->list : t->array;
}

static uint32_t bytes_of(const struct types *t, const struct member *m)
{
    uint32_t size = size_of(t, m);

    return size ? MAX(size, 8) : ARRAY_BYTES;
}

static void make_btf(struct fake_linux *f, unsigned flags)
{
    g_autoptr(GPtrArray) missing = g_ptr_array_new_with_free_func(g_free);
    struct btf *btf = btf__new_empty();
    struct types t = { .least = flags & FAKE_ALIGN_4 };
    int inner[G_N_ELEMENTS(members)] = { 0 };
    struct linux_btf *b;
    const void *data;
    __u32 size;
    size_t i, k;

    t.character = btf__add_int(btf, "char", 1, 0);
    t.number = btf__add_int(btf, "unsigned int", 4, 0);
    t.pointer = btf__add_ptr(btf, 0);
    t.array = btf__add_array(btf, t.number, t.character, ARRAY_BYTES);
    t.list = btf__add_struct(btf, "list_head", 16);
    btf__add_field(btf, "next", t.pointer, 0, 0);
    btf__add_field(btf, "prev", t.pointer, 64, 0);

    /* "a.b" is in a struct of its own, with all other "a." of its struct. */
    for (i = 0; i < G_N_ELEMENTS(members); i++) {
        const char *dot = strchr(members[i].path, '.');
        uint32_t at = 0;

        for (k = 0; dot && k < i; k++) {
            if (!strcmp(members[k].type, members[i].type) &&
                !strncmp(members[k].path, members[i].path,
                         (size_t)(dot + 1 - members[i].path))) {
                dot = NULL;
            }
        }
        if (!dot) {
            continue;
        }
        inner[i] = btf__add_struct(btf, "", 64);
        for (k = i; k < G_N_ELEMENTS(members); k++) {
            if (!strcmp(members[k].type, members[i].type) &&
                !strncmp(members[k].path, members[i].path,
                         (size_t)(dot + 1 - members[i].path))) {
                g_assert_cmpint(btf__add_field(
                    btf, members[k].path + (dot + 1 - members[i].path),
                    type_of(&t, &members[k]), at * 8, 0), ==, 0);
                at += bytes_of(&t, &members[k]);
            }
        }
    }
    for (i = 0; i < G_N_ELEMENTS(members); i++) {
        uint32_t at = 0;

        if (i && !strcmp(members[i - 1].type, members[i].type)) {
            continue;
        }
        btf__add_struct(btf, members[i].type, 512);
        for (k = i; k < G_N_ELEMENTS(members); k++) {
            const char *path = members[k].path;
            const char *dot = strchr(path, '.');
            g_autofree char *name = g_strndup(path, dot ? (gsize)(dot - path) :
                                              strlen(path));

            if (strcmp(members[k].type, members[i].type)) {
                break;
            }
            if (dot && !inner[k]) {
                continue;
            }
            g_assert_cmpint(btf__add_field(
                btf, name, dot ? inner[k] : type_of(&t, &members[k]),
                at * 8, 0), ==, 0);
            at += dot ? 32 : bytes_of(&t, &members[k]);
        }
    }
    btf__add_enum(btf, "maple_type", 4);
    btf__add_enum_value(btf, "maple_dense", 0);
    btf__add_enum_value(btf, "maple_leaf_64", 1);
    btf__add_enum_value(btf, "maple_range_64", 2);
    btf__add_enum_value(btf, "maple_arange_64", 3);
    btf__add_enum(btf, "pageflags", 4);
    btf__add_enum_value(btf, "PG_uptodate", UPTODATE);
    btf__add_enum(btf, "module_state", 4);
    btf__add_enum_value(btf, "MODULE_STATE_UNFORMED", 3);
    btf__add_enum(btf, "mod_mem_type", 4);
    btf__add_enum_value(btf, "MOD_TEXT", 0);
    btf__add_enum_value(btf, "MOD_INIT_TEXT", 1);
    btf__add_enum_value(btf, "MOD_MEM_NUM_TYPES", 2);

    data = btf__raw_data(btf, &size);
    g_assert_cmpuint(size, <=, (STRUCTS - BTF) * GUEST_PAGE_SIZE);
    memcpy(f->memory + BTF * GUEST_PAGE_SIZE, data, size);
    b = linux_btf_new(data, size);
    g_assert_nonnull(b);
    g_assert_true(linux_layout_read(&f->layout, b, missing));
    linux_btf_free(b);
    btf__free(btf);
    f->next = page_address(f, STRUCTS);
}

/* Room for a struct, or anything else, of at most @size bytes */
static uint64_t room(struct fake_linux *f, size_t size)
{
    uint64_t at = f->next;

    f->next += (size + 63) & ~(size_t)63;
    g_assert_cmphex(f->next, <=, page_address(f, VMEMMAP));
    return at;
}

static uint64_t text(struct fake_linux *f, const char *s)
{
    uint64_t at = room(f, strlen(s) + 1);

    strcpy((char *)fake_linux_at(f, at), s);
    return at;
}

/* Make a circular list of the nodes at these addresses. */
static void link_nodes(struct fake_linux *f, const uint64_t *nodes, unsigned n)
{
    unsigned i;

    for (i = 0; i < n; i++) {
        fake_linux_put64(f, nodes[i], 0, nodes[(i + 1) % n]);
        fake_linux_put64(f, nodes[(i + 1) % n], 8, nodes[i]);
    }
}

static uint64_t make_task(struct fake_linux *f, uint32_t pid, uint32_t tgid,
                          const char *comm, uint64_t start)
{
    const struct linux_layout *l = &f->layout;
    uint64_t task = room(f, 256);

    fake_linux_put32(f, task, l->task_pid, pid);
    fake_linux_put32(f, task, l->task_tgid, tgid);
    strcpy((char *)fake_linux_at(f, task + l->task_comm), comm);
    fake_linux_put64(f, task, l->task_start_boot, start);
    return task;
}

static void make_signal(struct fake_linux *f, const uint64_t *tasks,
                        unsigned n)
{
    const struct linux_layout *l = &f->layout;
    uint64_t signal = room(f, 64);
    uint64_t nodes[4] = { signal + l->signal_threads };
    unsigned i;

    for (i = 0; i < n; i++) {
        fake_linux_put64(f, tasks[i], l->task_signal, signal);
        nodes[i + 1] = tasks[i] + l->task_node;
    }
    link_nodes(f, nodes, n + 1);
}

uint64_t fake_linux_page(struct fake_linux *f, unsigned frame,
                         uint64_t mapping, uint64_t index)
{
    const struct linux_layout *l = &f->layout;
    uint64_t page = page_address(f, VMEMMAP) + (uint64_t)frame * PAGE_BYTES;

    fake_linux_put64(f, page, l->page_flags, 1 << UPTODATE);
    fake_linux_put64(f, page, l->page_mapping, mapping);
    fake_linux_put64(f, page, l->page_index, index);
    return page;
}

uint64_t fake_linux_node(struct fake_linux *f, uint8_t shift)
{
    uint64_t node = room(f, 192);

    *fake_linux_at(f, node + f->layout.node_shift) = shift;
    return node;
}

void fake_linux_file(struct fake_linux *f, unsigned pages)
{
    const struct linux_layout *l = &f->layout;
    uint32_t n = l->node_slots_n;
    uint64_t node = fake_linux_node(f, 2 * __builtin_ctz(n));
    uint64_t page = fake_linux_page(f, FAKE_FILE / GUEST_PAGE_SIZE, f->mapping,
                                    0);

    g_assert_cmpuint(pages, <=, n * n * n);
    for (unsigned i = 0; i < (pages + n * n - 1) / (n * n); i++) {
        fake_linux_put64(f, node, l->node_slots + 8 * i, i ? 2 : page);
    }
    fake_linux_put64(f, f->mapping, l->mapping_pages, node | 2);
}

/* "/dir/prog" on one mount */
static uint64_t make_file(struct fake_linux *f)
{
    static const char *const names[] = { "/", "dir", "prog" };
    const struct linux_layout *l = &f->layout;
    uint64_t file = room(f, 128), mount = room(f, 192);
    uint64_t dentry = 0;
    unsigned i;

    for (i = 0; i < 3; i++) {
        uint64_t d = room(f, 128);

        fake_linux_put64(f, d, l->dentry_parent, i ? dentry : d);
        fake_linux_put64(f, d, l->dentry_name, text(f, names[i]));
        fake_linux_put32(f, d, l->dentry_length, (uint32_t)strlen(names[i]));
        fake_linux_put64(f, d, l->dentry_unhashed, d);
        if (!i) {
            fake_linux_put64(f, mount + l->mount_mnt, l->vfsmount_root, d);
        }
        dentry = d;
    }
    fake_linux_put64(f, mount, l->mount_parent, mount);
    fake_linux_put64(f, file, l->file_mnt, mount + l->mount_mnt);
    fake_linux_put64(f, file, l->file_dentry, dentry);
    f->mapping = room(f, 64);
    fake_linux_put64(f, file, l->file_mapping, f->mapping);
    fake_linux_put64(f, f->mapping, l->mapping_pages,
                     fake_linux_page(f, USER_PAGE, f->mapping, 0));
    return file;
}

/* The program's first page: a build-id, and the arguments */
static void make_user_page(struct fake_linux *f)
{
    uint8_t *page = f->memory + USER_PAGE * GUEST_PAGE_SIZE;
    Elf64_Ehdr h = { .e_phoff = sizeof(h), .e_phnum = 1,
                     .e_phentsize = sizeof(Elf64_Phdr) };
    Elf64_Phdr p = { .p_type = PT_NOTE, .p_offset = 256, .p_filesz = 36 };
    Elf64_Nhdr n = { 4, 20, NT_GNU_BUILD_ID };

    memcpy(h.e_ident, ELFMAG, SELFMAG);
    h.e_ident[EI_CLASS] = ELFCLASS64;
    h.e_ident[EI_DATA] = ELFDATA2LSB;
    memcpy(page, &h, sizeof(h));
    memcpy(page + sizeof(h), &p, sizeof(p));
    memcpy(page + 256, &n, sizeof(n));
    memcpy(page + 256 + sizeof(n), "GNU\0build-id-of-20-bytes", 24);
    memcpy(page + 512, "prog\0-x", 8);
}

static void make_mm(struct fake_linux *f, uint64_t ops, bool list)
{
    const struct linux_layout *l = &f->layout;
    uint64_t image = room(f, 64);
    uint64_t special = room(f, 64);
    unsigned i;

    f->mm = room(f, 512);
    f->file = make_file(f);
    fake_linux_put64(f, f->mm, l->mm_pgd, page_address(f, USER_PML4));
    fake_linux_put64(f, f->mm, l->mm_arg_start, FAKE_USER + 512);
    fake_linux_put64(f, f->mm, l->mm_arg_end, FAKE_USER + 520);
    fake_linux_put64(f, f->mm, l->mm_start_brk, FAKE_USER + 0x10000);
    fake_linux_put64(f, f->mm, l->mm_brk, FAKE_USER + 0x12000);
    fake_linux_put64(f, f->mm, l->mm_start_stack, 0x7fff0000);
    fake_linux_put64(f, f->mm, l->mm_exe_file, f->file);
    fake_linux_put64(f, f->mm, l->mm_vdso_image, image);
    fake_linux_put64(f, image, l->vdso_data, page_address(f, USER_PAGE));
    fake_linux_put64(f, image, l->vdso_size, GUEST_PAGE_SIZE);
    fake_linux_put64(f, special, l->special_name, text(f, "[vdso]"));
    for (i = 0; i < 3; i++) {
        uint64_t vma = f->vmas[i] = room(f, 128);

        fake_linux_put64(f, vma, l->vma_mm, f->mm);
        fake_linux_put64(f, vma, l->vma_start, FAKE_USER + i * 0x10000);
        fake_linux_put64(f, vma, l->vma_end, FAKE_USER + i * 0x10000 + 0x2000);
        fake_linux_put64(f, vma, l->vma_flags, i == 1 ? 3 : 5);
        if (i && list) {
            fake_linux_put64(f, f->vmas[i - 1], l->vma_next, vma);
        }
    }
    fake_linux_put64(f, f->vmas[0], l->vma_file, f->file);
    fake_linux_put64(f, f->vmas[2], l->vma_ops, ops);
    fake_linux_put64(f, f->vmas[2], l->vma_private, special);
    if (list) {
        fake_linux_put64(f, f->mm, l->mm_mmap, f->vmas[0]);
    } else {
        /* Two levels: the second leaf has the last one. */
        uint64_t nodes[3];
        unsigned k;

        f->next = (f->next + 255) & ~UINT64_C(255);
        for (k = 0; k < 3; k++) {
            nodes[k] = room(f, 256);
        }
        fake_linux_put64(f, nodes[0], l->arange_slot, nodes[1] | 1 << 3);
        fake_linux_put64(f, nodes[0], l->arange_pivot, FAKE_USER + 0x1ffff);
        fake_linux_put64(f, nodes[0], l->arange_slot + 8, nodes[2] | 1 << 3);
        for (k = 0; k < 3; k++) {
            uint64_t leaf = nodes[1 + k / 2];
            unsigned slot = k == 0 ? 1 : k == 1 ? 3 : 0;
            uint64_t start = FAKE_USER + k * 0x10000;

            if (slot) {
                fake_linux_put64(f, leaf, l->range_pivot + 8 * (slot - 1),
                                 start - 1);
            }
            fake_linux_put64(f, leaf, l->range_pivot + 8 * slot,
                             start + 0x1fff);
            fake_linux_put64(f, leaf, l->range_slot + 8 * slot, f->vmas[k]);
        }
        fake_linux_put64(f, f->mm, l->mm_mt_root, nodes[0] | 3 << 3 | 2);
    }
}

void fake_linux_area(struct fake_linux *f, unsigned which, uint64_t start,
                     uint32_t size)
{
    const struct linux_layout *l = &f->layout;
    uint32_t at = l->module_mem + which * l->module_mem_each;

    fake_linux_put64(f, f->module, at + l->memory_base, start);
    fake_linux_put32(f, f->module, at + l->memory_size, size);
}

static void make_module(struct fake_linux *f, uint64_t modules)
{
    const struct linux_layout *l = &f->layout;
    uint64_t kallsyms = room(f, 64);
    uint64_t strings = room(f, 32), types = room(f, 8);
    uint64_t nodes[2] = { modules };
    Elf64_Sym s[FAKE_MODULE_SYMBOLS] = {
        { 0 },
        { .st_name = 1, .st_shndx = 1, .st_value = FAKE_MODULE,
          .st_size = 16 },
        { .st_name = 6, .st_shndx = 1, .st_value = FAKE_MODULE + 16,
          .st_size = 100 },
        { .st_name = 11, .st_shndx = 2, .st_value = FAKE_MODULE + 0x4000 },
        /* Of the kernel, as a module has it while it is loaded */
        { .st_name = 16, .st_value = FAKE_STEXT + 32 },
    };

    f->module_symbols = room(f, sizeof(s));
    f->module = room(f, 320);
    nodes[1] = f->module + l->module_list;
    link_nodes(f, nodes, 2);
    strcpy((char *)fake_linux_at(f, f->module + l->module_name), "mod");
    fake_linux_put64(f, f->module, l->module_kallsyms, kallsyms);
    fake_linux_put64(f, kallsyms, l->mod_symtab, f->module_symbols);
    fake_linux_put64(f, kallsyms, l->mod_strtab, strings);
    fake_linux_put64(f, kallsyms, l->mod_typetab, types);
    fake_linux_put32(f, kallsyms, l->mod_count, FAKE_MODULE_SYMBOLS);
    memcpy(fake_linux_at(f, f->module_symbols), s, sizeof(s));
    memcpy(fake_linux_at(f, strings), "\0load\0stop\0data\0used", 21);
    memcpy(fake_linux_at(f, types), "ntTdU", FAKE_MODULE_SYMBOLS);
    fake_linux_area(f, 0, FAKE_MODULE, GUEST_PAGE_SIZE);
}

/* Code that the kernel has made, in lists */
static void make_lists(struct fake_linux *f)
{
    const struct linux_layout *l = &f->layout;
    uint64_t nodes[3] = { f->bpf_list };

    for (unsigned i = 0; i < 2; i++) {
        f->bpf[i] = room(f, 128);
        nodes[i + 1] = f->bpf[i] + l->bpf_node;
        fake_linux_put64(f, f->bpf[i], l->bpf_start, FAKE_BPF + 0x100 * i);
        fake_linux_put64(f, f->bpf[i], l->bpf_end,
                         FAKE_BPF + 0x100 + 0x20 * i);
        strcpy((char *)fake_linux_at(f, f->bpf[i] + l->bpf_name),
               i ? "bpf_prog_2" : "bpf_prog_1");
    }
    link_nodes(f, nodes, 3);
    f->ftrace = room(f, 64);
    link_nodes(f, (uint64_t[]) { f->ftrace_list, f->ftrace + l->ftrace_node },
               2);
    fake_linux_put64(f, f->ftrace, l->ftrace_start, FAKE_BPF + 0x1000);
    fake_linux_put64(f, f->ftrace, l->ftrace_size, 0x123);
    f->slots = room(f, 64);
    link_nodes(f, (uint64_t[]) { f->kprobes + l->slots_pages,
                                 f->slots + l->slots_page_node }, 2);
    fake_linux_put64(f, f->slots, l->slots_page_start, FAKE_BPF + 0x2000);
    link_nodes(f, (uint64_t[]) { f->optprobes + l->slots_pages }, 1);
}

struct symbol {
    const char *name;
    uint64_t address;
};

/* Room for the next of the tables of symbols */
static uint64_t table_room(const struct fake_linux *f, uint64_t *at,
                           uint64_t size, uint64_t alignment)
{
    uint64_t begin = (*at + alignment - 1) & ~(alignment - 1);

    *at = begin + size;
    g_assert_cmphex(*at, <=, page_address(f, BTF));
    return begin;
}

static uint32_t offset_of(const struct fake_linux *f, uint64_t address,
                          uint64_t place, unsigned flags)
{
    if (flags & FAKE_PLACE) {
        return (uint32_t)(address - place);
    }
    if (flags & FAKE_UNSIGNED) {
        return (uint32_t)(address - f->stext);
    }
    /* Those of per-CPU data are offsets. */
    return (uint32_t)(address >> 31 ? f->stext - 1 - address : address);
}

static char *token(unsigned i)
{
    return g_ascii_isgraph((gchar)i) && i < 128 ? g_strdup_printf("%c", i) :
           g_strdup_printf("~%x", i);
}

static void make_symbols(struct fake_linux *f, const struct symbol *symbols,
                         unsigned n, unsigned flags)
{
    unsigned word = flags & FAKE_32 ? 4 : 8;
    uint64_t alignment = flags & FAKE_ALIGN_4 ? 4 : word;
    uint64_t room = page_address(f, SYMBOLS) + (flags & FAKE_ALIGN_4 ? 4 : 0);
    uint64_t offsets = 0, base = 0, number, names, markers, table, index;
    uint64_t order = 0;
    g_autoptr(GByteArray) text = g_byte_array_new();
    g_autoptr(GByteArray) tokens = g_byte_array_new();
    GString *note = g_string_new(NULL);
    uint32_t marker[2] = { 0 };
    uint16_t begin[256];
    unsigned i;

    for (i = 0; i < FAKE_SYMBOLS; i++) {
        g_autofree char *name = i < n ? g_strdup_printf("T%s",
                                                        symbols[i].name) :
                                g_strdup_printf("Ts%u", i);
        uint8_t length = (uint8_t)strlen(name);

        if (i % 256 == 0) {
            marker[i / 256] = text->len;
        }
        g_byte_array_append(text, &length, 1);
        g_byte_array_append(text, (uint8_t *)name, length);
    }
    for (i = 0; i < 256; i++) {
        g_autofree char *s = token(i);

        begin[i] = GUINT16_TO_LE((uint16_t)tokens->len);
        g_byte_array_append(tokens, (uint8_t *)s, (guint)strlen(s) + 1);
    }
    if (!(flags & FAKE_AFTER)) {
        offsets = table_room(f, &room, 4 * FAKE_SYMBOLS, alignment);
        base = table_room(f, &room, word, alignment);
    }
    number = table_room(f, &room, 4, alignment);
    names = table_room(f, &room, text->len, alignment);
    markers = table_room(f, &room, sizeof(marker), alignment);
    if (flags & FAKE_SEQS) {
        order = table_room(f, &room, 3 * FAKE_SYMBOLS, alignment);
    }
    table = table_room(f, &room, tokens->len, alignment);
    index = table_room(f, &room, sizeof(begin), alignment);
    if (flags & FAKE_AFTER) {
        offsets = table_room(f, &room, 4 * FAKE_SYMBOLS, alignment);
    }
    if (flags & FAKE_AFTER && !(flags & FAKE_PLACE)) {
        base = table_room(f, &room, word, alignment);
    }
    if (base) {
        fake_linux_put32(f, base, 0, (uint32_t)f->stext);
        if (word == 8) {
            fake_linux_put32(f, base, 4, (uint32_t)(f->stext >> 32));
        }
    }
    fake_linux_put32(f, number, 0, FAKE_SYMBOLS);
    memcpy(fake_linux_at(f, names), text->data, text->len);
    fake_linux_put32(f, markers, 0, marker[0]);
    fake_linux_put32(f, markers, 4, marker[1]);
    for (i = 0; i < FAKE_SYMBOLS && order; i++) {
        uint8_t *seq = fake_linux_at(f, order) + 3 * i;

        /* Any order: nobody reads it. */
        seq[0] = 0;
        seq[1] = (uint8_t)((FAKE_SYMBOLS - 1 - i) >> 8);
        seq[2] = (uint8_t)(FAKE_SYMBOLS - 1 - i);
    }
    memcpy(fake_linux_at(f, table), tokens->data, tokens->len);
    memcpy(fake_linux_at(f, index), begin, sizeof(begin));
    for (i = 0; i < FAKE_SYMBOLS; i++) {
        uint64_t address = i < n ? symbols[i].address : f->stext + 16 * i;

        fake_linux_put32(f, offsets, 4 * i,
                         offset_of(f, address, offsets + 4 * i, flags));
    }

    g_string_append_printf(
        note, "OSRELEASE=6.0-fake\nPAGESIZE=4096\nSYMBOL(_stext)=%"
        G_GINT64_MODIFIER "x\n", f->stext);
    if (flags & FAKE_32) {
        g_string_append_printf(
            note, "SYMBOL(swapper_pg_dir)=%" G_GINT64_MODIFIER "x\n%s",
            page_address(f, PML4), flags & FAKE_PAE ? "CONFIG_X86_PAE=y\n" :
            "");
    } else {
        g_string_append_printf(
            note, "SYMBOL(init_top_pgt)=%" G_GINT64_MODIFIER
            "x\nNUMBER(phys_base)=-16777216\nNUMBER(pgtable_l5_enabled)=0\n"
            "SIZE(page)=%u\n", page_address(f, PML4), PAGE_BYTES);
    }
    if (!(flags & FAKE_SEARCH)) {
        const struct symbol listed[] = {
            { "names", names }, { "num_syms", number },
            { "token_table", table }, { "token_index", index },
            { "offsets", offsets }, { "relative_base", base },
        };

        for (i = 0; i < G_N_ELEMENTS(listed) - !base; i++) {
            g_string_append_printf(note, "SYMBOL(kallsyms_%s)=%"
                                   G_GINT64_MODIFIER "x\n", listed[i].name,
                                   listed[i].address);
        }
    }
    g_assert_cmpuint(note->len, <, GUEST_PAGE_SIZE);
    strcpy((char *)f->memory + NOTE * GUEST_PAGE_SIZE, note->str);
    g_string_free(note, TRUE);
}

/* A kernel of 32 bits has no BTF here, and no tasks. */
static void make_32(struct fake_linux *f, unsigned flags)
{
    uint64_t banner;

    make_tables_32(f, flags & FAKE_PAE);
    f->next = page_address(f, STRUCTS);
    banner = text(f, "Linux version 6.0-fake (of a test)\n");
    f->syscalls = room(f, 4 * 4);
    for (unsigned i = 0; i < 3; i++) {
        fake_linux_put32(f, f->syscalls, 4 * i, (uint32_t)f->stext + 16 * i);
    }
    make_symbols(f, (struct symbol[]) {
        { "_stext", f->stext },
        { "linux_banner", banner },
        { "_etext", f->stext + GUEST_PAGE_SIZE },
        { "sys_call_table", f->syscalls },
    }, 4, flags);
}

void fake_linux_jump(struct fake_linux *f, unsigned i, uint64_t code,
                     uint64_t key)
{
    uint64_t entry = f->jumps + 16 * i;

    fake_linux_put32(f, entry, 0, (uint32_t)(code - entry));
    fake_linux_put32(f, entry, 4, 0x1234);
    fake_linux_put64(f, entry, 8, key - entry - 8);
}

/* sched_waking is used at two places, and sched_wakeup_new at one. */
static void make_jumps(struct fake_linux *f)
{
    uint64_t key;

    f->waking = room(f, 64);
    f->waking_new = room(f, 64);
    key = f->waking + f->layout.tracepoint_key;
    f->jumps = room(f, 16 * FAKE_JUMPS);
    for (unsigned i = 0; i < FAKE_JUMPS; i++) {
        fake_linux_jump(f, i, FAKE_WAKE + i, key + 8);
    }
    /* The lowest bits are flags. */
    fake_linux_jump(f, FAKE_WAKING, FAKE_WAKE + 0x20, key + 2);
    fake_linux_jump(f, FAKE_WAKING + 1, FAKE_WAKE + 0x80, key);
    fake_linux_jump(f, FAKE_WAKING_NEW, FAKE_WAKE_NEW + 0x30,
                    f->waking_new + f->layout.tracepoint_key + 1);
}

void fake_linux_init(struct fake_linux *f, unsigned flags)
{
    const struct linux_layout *l = &f->layout;
    uint64_t modules, banner, ops, vmemmap;
    struct btf_header h;
    uint64_t tasks[2];

    memset(f, 0, sizeof(*f));
    f->memory = g_malloc0(FAKE_SIZE);
    f->stext = flags & FAKE_32 ? FAKE_STEXT_32 : FAKE_STEXT;
    if (flags & FAKE_32) {
        make_32(f, flags);
        return;
    }
    make_tables(f, flags & FAKE_PTI);
    make_btf(f, flags);
    make_user_page(f);
    if (flags & FAKE_LIST) {
        /* Such a kernel knows no maple trees. */
        char *name = memmem(f->memory + BTF * GUEST_PAGE_SIZE,
                            (STRUCTS - BTF) * GUEST_PAGE_SIZE, "mm_mt", 6);

        g_assert_nonnull(name);
        *name = 'x';
    }
    f->init = make_task(f, 0, 0, "swapper/0", 0);
    f->kthread = make_task(f, 2, 2, "kthreadd", 10);
    f->process = make_task(f, FAKE_PID, FAKE_PID, "prog", 1000);
    f->thread = make_task(f, FAKE_PID + 1, FAKE_PID, "thread", 2000);
    make_signal(f, (uint64_t[]) { f->kthread }, 1);
    tasks[0] = f->process;
    tasks[1] = f->thread;
    make_signal(f, tasks, 2);
    fake_linux_put64(f, f->kthread, l->task_parent, f->init);
    fake_linux_put64(f, f->process, l->task_parent, f->kthread);
    fake_linux_put64(f, f->thread, l->task_parent, f->kthread);
    /* What is beside it is no part of it. */
    fake_linux_put64(f, f->thread, l->task_on_cpu, l->size.task_on_cpu == 1 ?
                     0x0101010101010101 : 0x0101010100000001);
    fake_linux_put32(f, f->thread, l->task_cpu, 3);
    ops = room(f, 8);
    make_mm(f, ops, flags & FAKE_LIST);
    fake_linux_put64(f, f->process, l->task_mm, f->mm);
    fake_linux_put64(f, f->thread, l->task_mm, f->mm);
    modules = room(f, 16);
    make_module(f, modules);
    f->bpf_list = room(f, 16);
    f->ftrace_list = room(f, 16);
    f->kprobes = room(f, 32);
    f->optprobes = room(f, 32);
    make_lists(f);
    banner = text(f, FAKE_BANNER);
    vmemmap = room(f, 8);
    fake_linux_put64(f, vmemmap, 0, page_address(f, VMEMMAP));
    /* The last two calls are one that there is none. */
    f->syscalls = room(f, 8 * 5);
    for (unsigned i = 0; i < 4; i++) {
        fake_linux_put64(f, f->syscalls, 8 * i, FAKE_STEXT + 16 * MIN(i, 2));
    }
    make_jumps(f);
    f->vmcoreinfo = room(f, 8);
    f->sorted = room(f, 8);
    fake_linux_boots(f, false);
    memcpy(&h, f->memory + BTF * GUEST_PAGE_SIZE, sizeof(h));
    make_symbols(f, (struct symbol[]) {
        { "_stext", FAKE_STEXT },
        { "init_task", f->init },
        { "modules", modules },
        { "special_mapping_vmops", ops },
        { "linux_banner", banner },
        { "__start_BTF", page_address(f, BTF) },
        { "__stop_BTF", page_address(f, BTF) + sizeof(h) + h.str_off +
                        h.str_len },
        { "_etext", FAKE_STEXT + GUEST_PAGE_SIZE },
        { "sys_call_table", f->syscalls },
        { "__switch_to_asm", FAKE_SWITCH_TO },
        { "__set_task_comm", FAKE_SET_NAME },
        { "pcpu_hot", FAKE_PCPU_HOT },
        { "current_task", FAKE_CURRENT },
        { "vmemmap_base", vmemmap },
        { "bpf_kallsyms", f->bpf_list },
        { "ftrace_ops_trampoline_list", f->ftrace_list },
        { "kprobe_insn_slots", f->kprobes },
        { "kprobe_optinsn_slots", f->optprobes },
        { "try_to_wake_up", FAKE_WAKE },
        { "wake_up_new_task", FAKE_WAKE_NEW },
        { "__tracepoint_sched_waking", f->waking },
        { "__tracepoint_sched_wakeup_new", f->waking_new },
        { "__start___jump_table", f->jumps },
        { "__stop___jump_table", f->jumps + 16 * FAKE_JUMPS },
        { "init_top_pgt", page_address(f, PML4) },
        { "vmcoreinfo_data", f->vmcoreinfo },
        { "static_key_initialized", f->sorted },
        { "text_poke_bp.part.0", FAKE_WRITER },
    }, FAKE_NAMED, flags);
}

void fake_linux_boots(struct fake_linux *f, bool boots)
{
    const struct linux_layout *l = &f->layout;
    uint64_t head = f->init + l->task_tasks;
    char *note = (char *)f->memory + NOTE * GUEST_PAGE_SIZE;

    /* The first byte of its text says whether it is there. */
    *note = boots ? 0 : 'O';
    fake_linux_put64(f, f->vmcoreinfo, 0, boots ? 0 : page_address(f, NOTE));
    *fake_linux_at(f, f->sorted) = !boots;
    if (boots) {
        link_nodes(f, (uint64_t[]) { head }, 1);
    } else {
        link_nodes(f, (uint64_t[]) { head, f->kthread + l->task_tasks,
                                     f->process + l->task_tasks }, 3);
    }
}

void fake_linux_move(struct fake_linux *f)
{
    static const char at[] = "(phys_base)=";
    char *base = strstr((char *)f->memory + NOTE * GUEST_PAGE_SIZE, at);

    for (uint64_t offset = 0; offset < USER_PAGE * GUEST_PAGE_SIZE;
         offset += 8) {
        uint64_t entry;

        memcpy(&entry, f->memory + offset, sizeof(entry));
        if (entry) {
            fake_linux_put64(f, FAKE_STEXT, (uint32_t)offset,
                             GUINT64_FROM_LE(entry) + FAKE_MOVED);
        }
    }
    /* The same number of digits */
    g_assert_nonnull(base);
    memcpy(base + strlen(at), "000000000", strlen("-16777216"));
}

void fake_linux_nest(const struct fake_linux *f, uint8_t *bytes)
{
    uint8_t *tables = bytes + FAKE_SIZE;

    memset(tables, 0, FAKE_NESTED_SIZE - FAKE_SIZE);
    for (unsigned i = 0; i < FAKE_PAGES; i++) {
        unsigned place = FAKE_PAGES - 1 - i;
        uint64_t entry = GUINT64_TO_LE(
            (FAKE_MOVED + place * GUEST_PAGE_SIZE) | 7);

        memcpy(bytes + place * GUEST_PAGE_SIZE,
               f->memory + i * GUEST_PAGE_SIZE, GUEST_PAGE_SIZE);
        memcpy(tables + 3 * GUEST_PAGE_SIZE + i * sizeof(entry), &entry,
               sizeof(entry));
    }
    for (unsigned i = 0; i < 3; i++) {
        uint64_t entry = GUINT64_TO_LE(
            (FAKE_NESTED_ROOT + (i + 1) * GUEST_PAGE_SIZE) | 7);

        memcpy(tables + i * GUEST_PAGE_SIZE, &entry, sizeof(entry));
    }
    memcpy(tables + 4 * GUEST_PAGE_SIZE, tables, GUEST_PAGE_SIZE);
}

void fake_linux_clear(struct fake_linux *f)
{
    g_free(f->memory);
}

struct linux_kernel *fake_linux_find(const struct guest_memory *m)
{
    char *why;
    struct linux_kernel *k = linux_kernel_find(m, 0, 0, 0, &why);

    g_assert_true(!k == !!why);
    if (why) {
        g_test_message("%s", why);
    }
    g_free(why);
    return k;
}

struct linux_kernel *fake_linux_begin(struct fake_linux *f, unsigned flags,
                                      struct guest_memory **m)
{
    struct linux_kernel *k;

    fake_linux_init(f, flags);
    *m = guest_memory_new();
    g_assert_true(guest_memory_add_bytes(*m, 0, FAKE_SIZE, f->memory));
    k = fake_linux_find(*m);
    g_assert_nonnull(k);
    return k;
}

void fake_linux_end(struct fake_linux *f, struct guest_memory *m,
                    struct linux_kernel *k)
{
    linux_kernel_free(k);
    guest_memory_free(m);
    fake_linux_clear(f);
}
