/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A Linux kernel in a guest's memory: see kernel.h
 */

#include <glib.h>
#include <string.h>

#include "guest-linux/kernel.h"
#include "guest-linux/vmcoreinfo.h"
#include "util/cr3-pair.h"

/*
 * Where x86-64 links the kernel, how far from there it can be (the rest is for
 * modules), and to what it is aligned: Documentation/arch/x86/x86_64/mm.rst
 */
#define START_KERNEL_MAP    UINT64_C(0xffffffff80000000)
#define KERNEL_IMAGE_SIZE   UINT64_C(0x40000000)
#define KERNEL_ALIGN        UINT64_C(0x200000)

/* Its array of struct page, if that is at no random address */
#define VMEMMAP_4_LEVELS    UINT64_C(0xffffea0000000000)
#define VMEMMAP_5_LEVELS    UINT64_C(0xffd4000000000000)

/* Pages that may be read to find a kernel, and per snapshot */
#define FIND_BUDGET     (UINT64_C(1) << 20)
#define SNAPSHOT_BUDGET     (UINT64_C(1) << 22)

/* Pages that begin like VMCOREINFO that are tried */
#define CANDIDATES      64

void linux_window(struct linux_kernel *k, uint64_t address, uint32_t size)
{
    k->window.size = 0;
    if (size && size <= LINUX_WINDOW_MAX &&
        page_walk_read(&k->walk, address, k->window.bytes, size)) {
        k->window.at = address;
        k->window.size = size;
    }
}

static bool in_window(struct linux_kernel *k, uint64_t address, void *v,
                      size_t size)
{
    uint64_t at = address - k->window.at;

    if (k->window.size < size || at > k->window.size - size) {
        return false;
    }
    memcpy(v, k->window.bytes + at, size);
    return true;
}

static inline bool read_number(struct linux_kernel *k, uint64_t base,
                               uint32_t offset, unsigned size, uint64_t *v)
{
    uint64_t n = 0;

    if (offset == LINUX_NONE ||
        (!in_window(k, base + offset, &n, size) &&
         !page_walk_read(&k->walk, base + offset, &n, size))) {
        return false;
    }
    *v = GUINT64_FROM_LE(n);
    return true;
}

bool linux_u32(struct linux_kernel *k, uint64_t base, uint32_t offset,
               uint32_t *v)
{
    uint64_t n;

    if (!read_number(k, base, offset, sizeof(*v), &n)) {
        return false;
    }
    *v = (uint32_t)n;
    return true;
}

bool linux_u64(struct linux_kernel *k, uint64_t base, uint32_t offset,
               uint64_t *v)
{
    return read_number(k, base, offset, sizeof(*v), v);
}

bool linux_number(struct linux_kernel *k, uint64_t base, uint32_t offset,
                  unsigned size, uint64_t *v)
{
    return size <= sizeof(*v) && read_number(k, base, offset, size, v);
}

bool linux_pointer(uint64_t address)
{
    return address >> 63 && !(address & 7) && address < UINT64_MAX - (1 << 20);
}

bool linux_string(struct linux_kernel *k, uint64_t address, char *buf,
                  size_t size)
{
    size_t n = page_walk_read_some(&k->walk, address, buf, size - 1);

    buf[n] = 0;
    return n == size - 1 || (n && memchr(buf, 0, n));
}

void linux_kernel_begin(struct linux_kernel *k)
{
    guest_memory_begin(k->memory);
    page_walk_flush(&k->walk);
    linux_window(k, 0, 0);
    k->walk.budget = SNAPSHOT_BUDGET;
}

static void add_missing(struct linux_kernel *k, const char *text)
{
    g_ptr_array_add(k->missing, g_strdup(text));
}

/* Has it already been said that this is lost? */
static bool is_missing(struct linux_kernel *k, const char *lost)
{
    bool is = false;

    for (guint i = 0; i < k->missing->len; i++) {
        is |= g_str_has_suffix(g_ptr_array_index(k->missing, i), lost);
    }
    return is;
}

/* Returns false if what this kernel's structs are like is not known. */
static bool read_btf(struct linux_kernel *k)
{
    struct linux_btf *b = NULL;
    uint64_t start, stop;
    g_autofree uint8_t *data = NULL;
    bool good;

    linux_layout_clear(&k->layout);
    if (!kallsyms_find(k->symbols, "__start_BTF", &start) ||
        !kallsyms_find(k->symbols, "__stop_BTF", &stop) || stop <= start) {
        add_missing(k, "BTF is missing (the kernel needs CONFIG_KALLSYMS_ALL "
                    "and CONFIG_DEBUG_INFO_BTF): tasks and modules are "
                    "unknown");
        return false;
    }
    if (stop - start <= LINUX_BTF_MAX) {
        data = g_malloc(stop - start);
        if (page_walk_read(&k->walk, start, data, stop - start)) {
            b = linux_btf_new(data, stop - start);
        }
    }
    if (!b) {
        add_missing(k, "BTF cannot be read: tasks and modules are unknown");
        return false;
    }
    good = linux_layout_read(&k->layout, b, k->missing);
    linux_btf_free(b);
    return good;
}

static bool symbol_or_none(struct linux_kernel *k, const char *name,
                           uint64_t *address)
{
    if (!kallsyms_find(k->symbols, name, address) ||
        (page_walk_word(&k->walk) == 8 && !linux_pointer(*address))) {
        *address = 0;
    }
    return *address != 0;
}

/* Finds the array of struct page. */
static void find_pages(struct linux_kernel *k, const struct vmcoreinfo *v)
{
    g_autofree char *size = vmcoreinfo_string(v, "SIZE(page)");
    uint64_t at;

    k->page_size = size ? (uint32_t)g_ascii_strtoull(size, NULL, 10) : 0;
    k->vmemmap = k->walk.levels == 5 ? VMEMMAP_5_LEVELS : VMEMMAP_4_LEVELS;
    if (symbol_or_none(k, "vmemmap_base", &at) &&
        !linux_u64(k, at, 0, &k->vmemmap)) {
        k->vmemmap = 0;
    }
    if (!k->page_size || !k->vmemmap) {
        add_missing(k, "SIZE(page) of VMCOREINFO or vmemmap_base is missing: "
                    LINUX_FILES);
    }
}

/* Finds the lists of code that the kernel has made. */
static void find_lists(struct linux_kernel *k)
{
    const struct linux_layout *l = &k->layout;

    if (symbol_or_none(k, "bpf_kallsyms", &k->bpf) &&
        l->bpf_node == LINUX_NONE && !is_missing(k, LINUX_BPF)) {
        add_missing(k, "bpf_ksym.lnode is missing: " LINUX_BPF);
    }
    if (symbol_or_none(k, "ftrace_ops_trampoline_list", &k->ftrace) &&
        l->ftrace_node == LINUX_NONE) {
        add_missing(k, "ftrace_ops.list is missing: " LINUX_FTRACE);
    }
    symbol_or_none(k, "kprobe_optinsn_slots", &k->optprobes);
    if (symbol_or_none(k, "kprobe_insn_slots", &k->kprobes) &&
        l->slots_page_node == LINUX_NONE) {
        add_missing(k, "kprobe_insn_page.list is missing: " LINUX_KPROBES);
    }
}

/* Finds what processes are read by; only symbols are known without it. */
static void find_tasks(struct linux_kernel *k)
{
    if (!read_btf(k)) {
        return;
    }
    if (!symbol_or_none(k, "init_task", &k->init_task)) {
        add_missing(k, "init_task is missing: tasks are unknown");
        return;
    }
    k->tasks = true;
    symbol_or_none(k, "init_mm", &k->init_mm);
    symbol_or_none(k, "special_mapping_vmops", &k->special_ops);
    if (symbol_or_none(k, "modules", &k->modules) &&
        k->layout.module_list == LINUX_NONE && !is_missing(k, LINUX_MODULES)) {
        add_missing(k, "module.list is missing: " LINUX_MODULES);
    }
    find_lists(k);
}

/*
 * Does its memory itself say which release it is?  Without CONFIG_KALLSYMS_ALL
 * it has no symbols of data, and VMCOREINFO tells where struct new_utsname is.
 */
static bool has_release(struct linux_kernel *k)
{
    char banner[80];
    char text[200];

    if (k->banner) {
        g_snprintf(banner, sizeof(banner), "Linux version %.60s ", k->release);
        return linux_string(k, k->banner, text, sizeof(text)) &&
               g_str_has_prefix(text, banner);
    }
    return k->utsname &&
           linux_string(k, k->utsname + LINUX_UTSNAME_RELEASE, text,
                        LINUX_UTSNAME_SIZE) &&
           !strcmp(text, k->release);
}

/* Finds what says which release it is. */
static void find_release(struct linux_kernel *k, const struct vmcoreinfo *v)
{
    g_autofree char *offset = vmcoreinfo_string(v,
                                                "OFFSET(uts_namespace.name)");
    uint64_t at;

    symbol_or_none(k, "linux_banner", &k->banner);
    if (offset && vmcoreinfo_symbol(v, "init_uts_ns", &at)) {
        k->utsname = at + g_ascii_strtoull(offset, NULL, 10);
    }
}

bool linux_kernel_remains(struct linux_kernel *k)
{
    linux_kernel_begin(k);
    return has_release(k);
}

/*
 * Has its page tables in @k->walk if they map _stext to where they must.  A
 * kernel of 64 bits says where in memory it is.
 */
static bool find_space_64(struct linux_kernel *k, const struct vmcoreinfo *v,
                          uint64_t stext, const char **what)
{
    int64_t phys_base;
    int64_t five = 0;
    uint64_t root, physical;

    *what = "VMCOREINFO: NUMBER(phys_base)";
    if (!vmcoreinfo_number(v, "phys_base", &phys_base)) {
        return false;
    }
    *what = "VMCOREINFO: SYMBOL(init_top_pgt)";
    if ((!vmcoreinfo_symbol(v, "init_top_pgt", &root) &&
         !vmcoreinfo_symbol(v, "swapper_pg_dir", &root)) ||
        root < START_KERNEL_MAP) {
        return false;
    }
    vmcoreinfo_number(v, "pgtable_l5_enabled", &five);
    k->root = root - START_KERNEL_MAP + (uint64_t)phys_base;
    page_walk_init(&k->walk, k->memory, k->root, five == 1 ? 5 : 4,
                   FIND_BUDGET);
    *what = "its page tables";
    return page_walk(&k->walk, stext, &physical) &&
           physical == stext - START_KERNEL_MAP + (uint64_t)phys_base;
}

/* A kernel of 32 bits is at one of a few distances from its physical memory. */
static bool find_space_32(struct linux_kernel *k, const struct vmcoreinfo *v,
                          uint64_t stext, const char **what)
{
    static const uint32_t page_offsets[] = {
        0xc0000000, 0xb0000000, 0x80000000, 0x78000000, 0x40000000,
    };
    g_autofree char *pae = vmcoreinfo_string(v, "CONFIG_X86_PAE");
    uint64_t root, physical;

    *what = "VMCOREINFO: SYMBOL(swapper_pg_dir)";
    if (!vmcoreinfo_symbol(v, "swapper_pg_dir", &root)) {
        return false;
    }
    *what = "its page tables";
    for (unsigned i = 0; i < G_N_ELEMENTS(page_offsets); i++) {
        k->root = root - page_offsets[i];
        page_walk_init(&k->walk, k->memory, k->root, pae ? 3 : 2, FIND_BUDGET);
        if (root >= page_offsets[i] && page_walk(&k->walk, stext, &physical) &&
            physical == stext - page_offsets[i]) {
            return true;
        }
    }
    return false;
}

/* Where page tables map the beginning of the kernel's image; -1 if nowhere */
static uint64_t image_at(const struct linux_kernel *k, uint64_t root)
{
    struct page_walk w;
    uint64_t physical;

    page_walk_init(&w, k->memory, root, k->walk.levels, 1);
    return page_walk(&w, k->stext, &physical) ? physical : UINT64_MAX;
}

bool linux_kernel_runs(const struct linux_kernel *k, uint64_t cr3)
{
    uint64_t own = image_at(k, k->root);

    /* With page table isolation, those of user mode do not have it. */
    return own != UINT64_MAX &&
           (image_at(k, cr3) == own ||
            image_at(k, cr3_pair(cr3)) == own);
}

static struct linux_kernel *kernel_in(const struct guest_memory *memory)
{
    struct linux_kernel *k = g_new0(struct linux_kernel, 1);

    k->memory = memory;
    k->cr3_flags = guest_memory_is_view(memory) ? BTRAIL_CR3_NESTED : 0;
    k->missing = g_ptr_array_new_with_free_func(g_free);
    return k;
}

/* Finds all that its symbols lead to. */
static void find_tables(struct linux_kernel *k)
{
    uint64_t at;

    if (!kallsyms_find(k->symbols, "sys_call_table", &at)) {
        add_missing(k, "sys_call_table is missing: names of system calls are "
                    "unknown");
    }
    find_tasks(k);
}

/*
 * Returns the kernel that @v describes, or NULL and what is missing.  Only one
 * that runs with @cr3 counts, if that is not 0.
 */
static struct linux_kernel *try(const struct guest_memory *memory,
                                const struct vmcoreinfo *v, uint64_t cr3,
                                const char **what)
{
    struct linux_kernel *k;
    uint64_t stext;
    g_autofree char *release = NULL;

    *what = "VMCOREINFO: SYMBOL(_stext)";
    release = vmcoreinfo_string(v, "OSRELEASE");
    if (!release || strlen(release) >= sizeof(k->release) ||
        !vmcoreinfo_symbol(v, "_stext", &stext) ||
        (stext < START_KERNEL_MAP && stext > UINT32_MAX)) {
        return NULL;
    }
    k = kernel_in(memory);
    strcpy(k->release, release);
    if (!(stext > UINT32_MAX ? find_space_64 : find_space_32)(k, v, stext,
                                                              what)) {
        goto bad;
    }
    k->stext = stext;
    if (cr3 && !linux_kernel_runs(k, cr3)) {
        *what = "the one that runs";
        goto bad;
    }
    *what = "its symbols (kallsyms)";
    k->symbols = kallsyms_read(&k->walk, v);
    if (!k->symbols) {
        goto bad;
    }
    *what = "its linux_banner or init_uts_ns";
    find_release(k, v);
    if (!has_release(k)) {
        goto bad;
    }
    find_tables(k);
    if (k->tasks) {
        find_pages(k, v);
    }
    return k;

bad:
    linux_kernel_free(k);
    return NULL;
}

struct linux_kernel *linux_kernel_find(const struct guest_memory *memory,
                                       uint64_t note, uint64_t size,
                                       uint64_t cr3, char **why)
{
    g_autofree struct vmcoreinfo *v = g_new(struct vmcoreinfo, 1);
    struct linux_kernel *k = NULL;
    const char *what = NULL;
    uint64_t from = 0;
    unsigned i;

    guest_memory_begin(memory);
    if (note && vmcoreinfo_note(v, memory, note, size)) {
        k = try(memory, v, cr3, &what);
    }
    for (i = 0; i < CANDIDATES && !k && vmcoreinfo_find(v, memory, &from);
         i++) {
        k = try(memory, v, cr3, &what);
    }
    *why = NULL;
    if (!k && what) {
        *why = g_strdup_printf("a kernel is in the guest's memory, but not "
                               "%s", what);
    } else if (!k) {
        *why = g_strdup("no Linux kernel is in the guest's memory (it is found "
                        "by its VMCOREINFO, which needs CONFIG_VMCORE_INFO or "
                        "CONFIG_CRASH_CORE)");
    }
    return k;
}

/*
 * Finds the image that is mapped by these page tables, of as many levels: where
 * its first page is, and what maps it there.
 */
static bool find_image(struct page_walk *w, const struct guest_memory *memory,
                       uint64_t cr3, unsigned levels, uint64_t *stext,
                       uint64_t *physical)
{
    page_walk_init(w, memory, cr3, levels, FIND_BUDGET);
    for (uint64_t at = 0; at < KERNEL_IMAGE_SIZE; at += KERNEL_ALIGN) {
        *stext = START_KERNEL_MAP + at;
        if (page_walk(w, *stext, physical)) {
            return true;
        }
    }
    return false;
}

/* Has its release, as its banner says it. */
static bool read_release(struct linux_kernel *k)
{
    static const char before[] = "Linux version ";
    char text[200];
    size_t n;

    if (!symbol_or_none(k, "linux_banner", &k->banner) ||
        !linux_string(k, k->banner, text, sizeof(text)) ||
        !g_str_has_prefix(text, before)) {
        return false;
    }
    n = strcspn(text + strlen(before), " ");
    if (!n || n >= sizeof(k->release)) {
        return false;
    }
    memcpy(k->release, text + strlen(before), n);
    return has_release(k);
}

/*
 * Has its page tables in @k->walk if they map its image to where it is.  They
 * do so when it begins with its code in C: until then it runs with others, whose
 * entries these get.
 */
static bool find_own_tables(struct linux_kernel *k, unsigned levels,
                            uint64_t physical)
{
    uint64_t root, own;

    if (!symbol_or_none(k, "init_top_pgt", &root) &&
        !symbol_or_none(k, "swapper_pg_dir", &root)) {
        return false;
    }
    k->root = root - k->stext + physical;
    page_walk_init(&k->walk, k->memory, k->root, levels, FIND_BUDGET);
    return page_walk(&k->walk, k->stext, &own) && own == physical;
}

struct linux_kernel *
linux_kernel_find_booting(const struct guest_memory *memory, uint64_t cr3)
{
    g_autofree struct page_walk *w = g_new(struct page_walk, 1);
    struct linux_kernel *k = kernel_in(memory);
    uint64_t physical, at;
    unsigned levels = 4;

    guest_memory_begin(memory);
    if (!find_image(w, memory, cr3, levels, &k->stext, &physical)) {
        levels = 5;
        if (!find_image(w, memory, cr3, levels, &k->stext, &physical)) {
            goto bad;
        }
    }
    k->symbols = kallsyms_search(w, k->stext);
    if (!k->symbols || !find_own_tables(k, levels, physical) ||
        !read_release(k) ||
        !kallsyms_find(k->symbols, "vmcoreinfo_data", &at)) {
        goto bad;
    }
    find_tables(k);
    if (!k->tasks) {
        goto bad;
    }
    k->booting = true;
    return k;

bad:
    linux_kernel_free(k);
    return NULL;
}

/*
 * Reads the VMCOREINFO that a kernel makes of a page of its own, if it is
 * whole: what it says of page tables comes last.
 */
static bool read_vmcoreinfo(struct linux_kernel *k, struct vmcoreinfo *v)
{
    g_autofree char *release = NULL;
    uint64_t at, page, stext, root;
    int64_t phys_base;

    if (!symbol_or_none(k, "vmcoreinfo_data", &at) ||
        !linux_u64(k, at, 0, &page) || !linux_pointer(page) ||
        page % GUEST_PAGE_SIZE ||
        !page_walk_read(&k->walk, page, v->text, GUEST_PAGE_SIZE)) {
        return false;
    }
    v->text[GUEST_PAGE_SIZE] = 0;
    release = vmcoreinfo_string(v, "OSRELEASE");
    return release && !strcmp(release, k->release) &&
           vmcoreinfo_symbol(v, "_stext", &stext) && stext == k->stext &&
           vmcoreinfo_number(v, "phys_base", &phys_base) &&
           (vmcoreinfo_symbol(v, "init_top_pgt", &root) ||
            vmcoreinfo_symbol(v, "swapper_pg_dir", &root)) &&
           k->root == root - START_KERNEL_MAP + (uint64_t)phys_base;
}

bool linux_kernel_complete(struct linux_kernel *k)
{
    g_autofree struct vmcoreinfo *v = g_new(struct vmcoreinfo, 1);

    if (!k->booting) {
        return true;
    }
    linux_kernel_begin(k);
    if (!read_vmcoreinfo(k, v)) {
        return false;
    }
    find_release(k, v);
    find_pages(k, v);
    k->booting = false;
    return true;
}

void linux_kernel_free(struct linux_kernel *k)
{
    if (k) {
        kallsyms_free(k->symbols);
        g_ptr_array_unref(k->missing);
        g_free(k);
    }
}
