/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From addresses to names: see symbolizer.h
 */

#include <elf.h>
#include <errno.h>
#include <gio/gio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "backtrail/code.h"
#include "lib/internal/code-piece.h"
#include "lib/internal/names-private.h"
#include "symbolize/content-mappings.h"
#include "symbolize/runs.h"
#include "symbolize/symbolizer.h"

struct symbolizer {
    const struct btrail_trace *trace;
    struct map_file *map;
    struct elf_files *files;
    struct address_space *own_shared;   /* if there is no map */
    struct address_space *shared;
    struct btrail_names *names;
    struct btrail_owners *owners;
    struct btrail_code *code;
    struct content_mappings *contents;
    struct processes *processes;
    struct places *places;
    bool searched;              /* the trace was searched for runs */
    struct runs *runs;
    struct thread_lives *threads;
    const char *left_out;
};

static void add_image(struct symbolizer *s, const void *data, size_t size)
{
    const uint8_t *bytes = data;

    elf_files_add_image(s->files, size > EI_CLASS &&
                        bytes[EI_CLASS] == ELFCLASS32 ? PLACES_VDSO32 :
                        PLACES_VDSO, data, size);
}

static void add_symbols(struct symbolizer *s)
{
    struct btrail_symbol symbol;

    for (size_t i = 0; !btrail_names_symbol(s->names, i, &symbol); i++) {
        g_autofree char *module = symbol.module ?
                                  g_strdup_printf("[%s]", symbol.module) :
                                  NULL;

        if (g_utf8_validate(symbol.name, -1, NULL)) {
            address_space_kallsyms(s->shared, symbol.address, symbol.type,
                                   symbol.name, module);
        }
    }
}

/* Reads the sideband, without the parts that are damaged. */
static void read_sideband(struct symbolizer *s)
{
    struct btrail_sideband_info info;
    void *data;
    unsigned i;
    int ret;

    for (i = 0; (ret = btrail_trace_sideband(s->trace, i, &info, NULL)) !=
         -BTRAIL_ERR_END; i++) {
        if (ret || (info.kind != BTRAIL_SIDEBAND_IMAGE &&
                    info.kind != BTRAIL_SIDEBAND_DYNAMIC) ||
            btrail_trace_sideband(s->trace, i, &info, &data)) {
            continue;
        }
        if (info.kind == BTRAIL_SIDEBAND_IMAGE) {
            add_image(s, data, info.size);
        } else {
            elf_files_add_functions(s->files, data, info.size);
        }
        free(data);
    }
    if (btrail_names_open(&s->names, s->trace)) {
        s->names = NULL;
    } else {
        if (btrail_names_cut(s->names) != UINT64_MAX) {
            s->left_out = "processes, mappings and symbols";
        }
        add_symbols(s);
        if (btrail_owners_open(&s->owners, s->trace, s->names)) {
            s->owners = NULL;
        }
    }
    ret = btrail_code_open(&s->code, s->trace);
    if (ret) {
        s->code = NULL;
        s->left_out = ret == -BTRAIL_ERR_MEMORY ? "code" : s->left_out;
    }
}

const char *symbolizer_left_out(const struct symbolizer *s)
{
    return s->left_out;
}

static struct elf_file *open_vmlinux(struct symbolizer *s, const char *path,
                                     GError **error)
{
    struct elf_file *vmlinux = elf_files_host(s->files, path);

    if (!vmlinux) {
        g_set_error(error, G_IO_ERROR, G_IO_ERROR_FAILED, "%s: %s", path,
                    errno == ENOEXEC ? "not an ELF file for x86; a compressed "
                    "kernel (vmlinuz) has no symbols, use the vmlinux" :
                    g_strerror(errno));
    }
    return vmlinux;
}

/* The address of a symbol that has one of two names; 0 if there is none */
static uint64_t find_symbol(const struct symbolizer *s, const char *name,
                            const char *other)
{
    uint64_t address;

    return address_space_symbol_find(s->shared, name, &address) ||
           (other && address_space_symbol_find(s->shared, other, &address)) ?
           address : 0;
}

/*
 * Is an ELF file the kernel whose symbols the trace has?  Its functions are all
 * at the same distance from there then.  Without symbols nobody knows.
 */
static bool is_kernel_of_guest(struct symbolizer *s, struct elf_file *vmlinux,
                               const char *path, GError **error)
{
    static const char *const names[] = {
        "_text", "_stext", "schedule", "do_exit", "vfs_read", "kernel_clone",
        "kmem_cache_alloc_noprof", "kmem_cache_alloc", "_raw_spin_lock",
    };
    const char *first = NULL;
    uint64_t distance = 0;
    bool has_symbols = false;

    for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
        const struct elf_symbol *symbol = elf_file_find(vmlinux, names[i]);
        uint64_t address = find_symbol(s, names[i], NULL);

        has_symbols |= !!address;
        if (!address || !symbol) {
            continue;
        }
        if (!first) {
            first = names[i];
            distance = address - symbol->start;
        } else if (address - symbol->start != distance) {
            g_set_error(error, G_IO_ERROR, G_IO_ERROR_FAILED, "%s: not the "
                        "kernel of this guest, but another build: '%s' and "
                        "'%s' are elsewhere", path, first, names[i]);
            return false;
        }
    }
    if (has_symbols && !first) {
        g_set_error(error, G_IO_ERROR, G_IO_ERROR_FAILED, "%s: not the kernel "
                    "of this guest, or without symbols", path);
        return false;
    }
    return true;
}

/* A folder that is not there has no file of the guest. */
static bool are_folders(const char *option, char *const *paths, GError **error)
{
    for (; paths && *paths; paths++) {
        struct stat st;
        int failure = stat(*paths, &st) ? errno :
                      S_ISDIR(st.st_mode) ? 0 : ENOTDIR;

        if (failure) {
            g_set_error(error, G_IO_ERROR, G_IO_ERROR_FAILED, "%s: %s: %s",
                        option, *paths, g_strerror(failure));
            return false;
        }
    }
    return true;
}

struct symbolizer *symbolizer_new(const struct symbolizer_options *options,
                                  const struct btrail_trace *trace,
                                  GError **error)
{
    struct symbolizer *s;
    struct elf_file *vmlinux = NULL;

    if (!are_folders("--sysroot", options->files.sysroots, error) ||
        !are_folders("--debug-dir", options->files.debug_dirs, error)) {
        return NULL;
    }
    s = g_new0(struct symbolizer, 1);

    s->trace = trace;
    s->files = elf_files_new(&options->files);
    s->own_shared = s->shared = address_space_new();
    if (options->map) {
        s->map = map_file_read(options->map, error);
        s->shared = s->map ? map_file_shared(s->map) : NULL;
    }
    if (s->shared && options->vmlinux) {
        vmlinux = open_vmlinux(s, options->vmlinux, error);
    }
    if (!s->shared || (options->vmlinux && !vmlinux)) {
        symbolizer_free(s);
        return NULL;
    }
    if (trace) {
        read_sideband(s);
    }
    if (vmlinux &&
        !is_kernel_of_guest(s, vmlinux, options->vmlinux, error)) {
        symbolizer_free(s);
        return NULL;
    }
    s->processes = processes_new(s->map, s->names, s->owners);
    if (s->owners && s->code) {
        s->contents = content_mappings_new(trace, s->code, s->names,
                                           s->owners);
    }
    s->places = places_new(s->files, vmlinux, s->shared, s->names,
                           s->processes, s->contents);
    return s;
}

void symbolizer_free(struct symbolizer *s)
{
    if (s) {
        places_free(s->places);
        content_mappings_free(s->contents);
        runs_free(s->runs);
        thread_lives_free(s->threads);
        processes_free(s->processes);
        btrail_owners_close(s->owners);
        btrail_names_close(s->names);
        btrail_code_close(s->code);
        address_space_free(s->own_shared);
        map_file_free(s->map);
        elf_files_free(s->files);
        g_free(s);
    }
}

const struct process *symbolizer_process(struct symbolizer *s,
                                         const struct symbolizer_where *where,
                                         uint64_t time,
                                         enum btrail_certainty *certainty)
{
    return processes_find(s->processes, where, time, certainty);
}

/* From which index on do the events of a stream name tasks?  UINT64_MAX:
 * none */
static uint64_t first_task(const struct btrail_trace *trace, unsigned vcpu)
{
    uint64_t index = UINT64_MAX;
    struct btrail_cursor *cursor;
    struct btrail_batch b;

    if (btrail_cursor_open(&cursor, trace, vcpu, BTRAIL_CURSOR_EVENTS_ONLY)) {
        return index;
    }
    while (index == UINT64_MAX && !btrail_cursor_next(cursor, &b)) {
        if (b.event->type == BTRAIL_EVENT_TASK && b.task.known) {
            index = b.index;
        }
    }
    btrail_cursor_close(cursor);
    return index;
}

/*
 * Searches the streams for runs, as long as their events do not name tasks, if
 * the kernel's functions are known.
 */
static void find_runs(struct symbolizer *s)
{
    static const char *const idle[] = { "do_idle", "schedule_idle" };
    struct runs_symbols symbols = { 0 };
    uint64_t until[BTRAIL_MAX_VCPUS];
    struct btrail_stream_info info;
    bool tasks = false;

    s->searched = true;
    if (!s->owners || !btrail_names_unfiltered(s->names)) {
        return;
    }
    for (unsigned i = 0; !btrail_trace_stream(s->trace, i, &info); i++) {
        until[info.vcpu] = first_task(s->trace, info.vcpu);
        tasks |= until[info.vcpu] != UINT64_MAX;
    }
    symbols.switch_to = find_symbol(s, "__switch_to_asm", NULL);
    symbols.lazy = find_symbol(s, "enter_lazy_tlb", NULL);
    symbols.switch_mm = find_symbol(s, "switch_mm_irqs_off", NULL);
    if (!symbols.switch_to || !symbols.lazy || !symbols.switch_mm) {
        return;
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(idle); i++) {
        uint64_t start = find_symbol(s, idle[i], NULL);
        const struct symbol *symbol = address_space_symbol(s->shared, start);

        if (start && symbol) {
            symbols.idle[i].start = start;
            symbols.idle[i].end = symbol->end;
        }
    }
    symbols.birth = find_symbol(s, "ret_from_fork_asm", "ret_from_fork");
    symbols.clone = find_symbol(s, "kernel_clone", "_do_fork");
    symbols.exit = find_symbol(s, "do_exit", NULL);
    s->runs = runs_new(s->trace, until, &symbols, btrail_parallel_threads());
    if (s->runs && !tasks && symbols.birth && symbols.clone && symbols.exit) {
        s->threads = thread_lives_new(s->runs, s->names, s->owners);
        processes_set_threads(s->processes, s->threads);
    }
}

/* Does a process stand for the page table of the kernel alone? */
static bool is_kernel(const struct process *p)
{
    return p->seen && !p->pid;
}

/* Finds the task that ran from a record on; @run is the record's run. */
static void find_task(struct symbolizer *s,
                      const struct symbolizer_where *where, uint64_t time,
                      const struct run *run, struct task *task)
{
    task->process = processes_find(s->processes, where, time, &task->user);
    task->tid = -1;
    task->kernel = run->kind == RUN_USER ? task->user :
                   MIN(task->user, BTRAIL_LIKELY);
    if (run->kind == RUN_USER && is_kernel(task->process) && run->cr3) {
        /* The process ends and has returned its own page table. */
        const struct symbolizer_where begin = {
            where->vcpu, run->first, run->cr3,
        };

        task->process = processes_find(s->processes, &begin, run->time,
                                       &task->user);
        task->kernel = task->user;
    }
    /* Any task of the kernel can use the kernel's own page table. */
    if (run->kind == RUN_KERNEL || run->kind == RUN_IDLE ||
        (run->kind == RUN_UNKNOWN && is_kernel(task->process))) {
        task->process = processes_borrower(s->processes, task->process,
                                           run->kind == RUN_IDLE);
        task->user = task->kernel = BTRAIL_SURE;
    }
}

bool symbolizer_part(struct symbolizer *s, unsigned vcpu,
                     const struct btrail_batch *b, struct btrail_batch *part,
                     struct task *task)
{
    uint64_t index = part->count ? part->index + part->count : b->index;
    uint64_t done = index - b->index;
    const struct symbolizer_where where = { vcpu, index, b->cr3 };
    struct run run = { .end = UINT64_MAX };

    if (done >= b->count) {
        return false;
    }
    *part = *b;
    part->index = index;
    part->records += done;
    if (b->task.known) {
        task->process = processes_task(s->processes, &where, b->time.host,
                                       &b->task);
        task->tid = b->task.tid;
        task->user = task->kernel = BTRAIL_SURE;
        part->count = b->count - done;
        return true;
    }
    if (!s->searched) {
        find_runs(s);
    }
    if (s->runs) {
        run = runs_find(s->runs, vcpu, index);
    }
    part->count = MIN(b->count - done, run.end - index);
    find_task(s, &where, b->time.host, &run, task);
    return true;
}

void symbolizer_place(struct symbolizer *s, const struct process *process,
                      uint64_t address, struct place *place)
{
    places_find(s->places, process, address, place);
}

const struct btrail_names *symbolizer_names(const struct symbolizer *s)
{
    return s->names;
}

bool symbolizer_has_map(const struct symbolizer *s)
{
    return s->map;
}

void symbolizer_starts(struct symbolizer *s, const char *name,
                       GArray *addresses)
{
    places_starts(s->places, name, addresses);
}

void symbolizer_starts_in(struct symbolizer *s,
                          const struct btrail_process *version,
                          const char *name, GArray *addresses)
{
    places_starts_in(s->places, version, name, addresses);
}

void symbolizer_files(struct symbolizer *s, const struct process *process,
                      uint64_t address, places_file_fn *fn, void *opaque)
{
    places_files(s->places, process, address, fn, opaque);
}

bool symbolizer_line(struct symbolizer *s, const struct place *place,
                     const char **file, unsigned *line)
{
    const struct module *module = place->function->module;

    return module->elf &&
           elf_file_line(module->elf, place->address, file, line);
}

size_t symbolizer_code(struct symbolizer *s, const struct process *process,
                       const struct symbolizer_where *where,
                       uint64_t address, void *buf, size_t n,
                       bool *exact)
{
    int ret = s->code ? btrail_code_read(s->code, where->vcpu, where->index,
                                         where->cr3, address, buf, n) : 0;

    *exact = ret > 0 || address < ADDRESS_SHARED;
    return ret > 0 ? (size_t)ret :
           places_read(s->places, process, address, buf, n);
}

size_t symbolizer_constant(struct symbolizer *s, const struct process *process,
                           uint64_t address, void *buf, size_t n)
{
    return places_read_constant(s->places, process, address, buf, n);
}

struct btrail_code *symbolizer_captured(const struct symbolizer *s)
{
    return s->code;
}

bool symbolizer_code_captured(const struct symbolizer *s,
                              const struct symbolizer_where *where,
                              uint64_t address)
{
    uint8_t byte;

    return s->code && btrail_code_read(s->code, where->vcpu, where->index,
                                       where->cr3, address, &byte, 1) > 0;
}

uint64_t symbolizer_code_until(const struct symbolizer *s,
                               const struct symbolizer_where *where,
                               uint64_t address, size_t n)
{
    return s->code ? btrail_code_until(s->code, where->vcpu, where->index,
                                       where->cr3, address, n) : UINT64_MAX;
}

unsigned symbolizer_bits(struct symbolizer *s, const struct process *process,
                         uint64_t address)
{
    struct place place;

    if (address >= (UINT64_C(1) << 32)) {
        return 64;
    }
    symbolizer_place(s, process, address, &place);
    return place.function->module->elf ? place.function->module->bits :
           process->owner->bits;
}
