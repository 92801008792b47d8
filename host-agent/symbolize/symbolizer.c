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
#include "lib/agent/batch.h"
#include "lib/agent/code-piece.h"
#include "lib/agent/names-private.h"
#include "symbolize/content-mappings.h"
#include "symbolize/runs.h"
#include "symbolize/symbolizer.h"
#include "util/random.h"

struct symbolizer {
    const struct btrail_trace *trace;
    struct map_file *map;
    struct elf_files *files;
    struct address_space *own_shared;   /* if there is no map */
    struct address_space *shared;
    struct btrail_names *names;
    struct kernel_names *kernel;
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
                        bytes[EI_CLASS] == ELFCLASS32 ? MAPPING_VDSO32 :
                        MAPPING_VDSO, data, size);
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

/* What the map says that processes have compiled */
static void add_compiled(struct symbolizer *s)
{
    const struct map_functions *f;

    for (unsigned i = 0; (f = map_file_functions(s->map, i)); i++) {
        uint8_t id[COMPILED_FUNCTIONS_ID];
        char path[COMPILED_FUNCTIONS_PATH];
        g_autoptr(GByteArray) file = NULL;
        const char *build_id;

        random_bytes(id, sizeof(id));
        file = compiled_functions_file(
            (const struct compiled_function *)f->all->data, f->all->len,
            f->names->str, SIZE_MAX, id);
        build_id = file ? elf_files_add_own(s->files, file->data, file->len) :
                   NULL;
        if (build_id) {
            compiled_functions_path(path, f->pid);
            processes_set_compiled(s->processes, f->pid, path, build_id);
        }
    }
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
    s->kernel = kernel_names_new(s->shared, s->names);
    if (vmlinux && !kernel_names_set_vmlinux(s->kernel, vmlinux,
                                             options->vmlinux, error)) {
        symbolizer_free(s);
        return NULL;
    }
    s->processes = processes_new(s->map, s->names, s->owners);
    if (s->map) {
        add_compiled(s);
    }
    if (s->owners && s->code) {
        s->contents = content_mappings_new(trace, s->code, s->names,
                                           s->owners);
    }
    s->places = places_new(s->files, s->kernel, s->shared, s->names,
                           s->processes, s->contents, options->mangled);
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
        kernel_names_free(s->kernel);
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
                                         enum btrail_certainty *certainty)
{
    return processes_find(s->processes, where, certainty);
}

/*
 * From which index on do the events of a stream name tasks?  UINT64_MAX:
 * none
 */
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
    static const char *const names[] = {
        "__switch_to_asm", "enter_lazy_tlb", "switch_mm_irqs_off",
        "ret_from_fork_asm", "ret_from_fork", "kernel_clone", "_do_fork",
        "do_exit", "do_idle", "schedule_idle", "start_kernel",
        "start_secondary",
    };
    struct symbol found[G_N_ELEMENTS(names)];
    const struct symbol *idle = found + 8;
    struct runs_symbols symbols;
    uint64_t until[BTRAIL_MAX_VCPUS];
    struct btrail_stream_info info;
    bool tasks = false, signs;

    s->searched = true;
    if (!s->owners || !btrail_names_unfiltered(s->names)) {
        return;
    }
    for (unsigned i = 0; !btrail_trace_stream(s->trace, i, &info); i++) {
        until[info.vcpu] = first_task(s->trace, info.vcpu);
        tasks |= until[info.vcpu] != UINT64_MAX;
    }
    /* If there are several kernels, each switches elsewhere. */
    if (!kernel_names_all(s->kernel, names, G_N_ELEMENTS(names), found)) {
        return;
    }
    symbols = (struct runs_symbols) {
        .switch_to = found[0].start, .lazy = found[1].start,
        .switch_mm = found[2].start,
        .birth = found[3].start ?: found[4].start,
        .clone = found[5].start ?: found[6].start, .exit = found[7].start,
        .idle = { { idle[0].start, idle[0].end },
                  { idle[1].start, idle[1].end } },
        .start = { found[10].start, found[11].start },
    };
    /* Linux 7.3 has no enter_lazy_tlb: what it begins with is known still. */
    signs = symbols.lazy && symbols.switch_mm;
    if (!symbols.switch_to || (!signs && !symbols.start[0])) {
        return;
    }
    s->runs = runs_new(s->trace, until, &symbols, btrail_parallel_threads());
    if (s->runs && !tasks && signs && symbols.birth && symbols.clone &&
        symbols.exit) {
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
                      const struct symbolizer_where *where,
                      const struct run *run, struct task *task)
{
    task->process = processes_find(s->processes, where, &task->user);
    task->tid = -1;
    task->kernel = run->kind == RUN_USER ? task->user :
                   MIN(task->user, BTRAIL_LIKELY);
    if (run->kind == RUN_USER && is_kernel(task->process) && run->cr3) {
        /* The process ends and has returned its own page table. */
        struct symbolizer_where begin = *where;

        begin.index = run->first;
        begin.cr3 = run->cr3;
        begin.time = run->time;
        task->process = processes_find(s->processes, &begin, &task->user);
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
    const struct symbolizer_where where = symbolizer_at(vcpu, b, done);
    struct run run = { .end = UINT64_MAX };
    size_t n;

    if (done >= b->count) {
        return false;
    }
    /* What leaves its kernel is a part of its own. */
    n = b->count - done - (b->leaves && b->count - done > 1);
    task->where = where;
    task->nested = 0;
    task->era = symbolizer_era(s, &where);
    if (b->task.known) {
        task->process = processes_task(s->processes, &where, &b->task);
        task->tid = b->task.tid;
        task->nested = b->task.nested;
        task->user = task->kernel = BTRAIL_SURE;
        *part = btrail_batch_part(b, done, n);
        return true;
    }
    if (where.kernel == SYMBOLIZER_NO_KERNEL) {
        task->process = processes_find(s->processes, &where, &task->user);
        task->tid = -1;
        task->kernel = task->user;
        *part = btrail_batch_part(b, done, n);
        return true;
    }
    if (!s->searched) {
        find_runs(s);
    }
    if (s->runs) {
        run = runs_find(s->runs, vcpu, index);
    }
    *part = btrail_batch_part(b, done, MIN(n, run.end - index));
    find_task(s, &where, &run, task);
    return true;
}

uint32_t symbolizer_era(struct symbolizer *s,
                        const struct symbolizer_where *where)
{
    uint32_t era = kernel_names_era(s->kernel, where->kernel, where->time,
                                    NULL);

    return where->leaves ? ~era : era;
}

void symbolizer_place(struct symbolizer *s, const struct process *process,
                      const struct symbolizer_where *where, uint64_t address,
                      struct place *place)
{
    places_find(s->places, process, where, address, place);
}

void symbolizer_place_in(struct symbolizer *s,
                         const struct symbolizer_where *where,
                         struct module *module, uint64_t address,
                         struct place *place)
{
    places_find_in(s->places, where, module, address, place);
}

void symbolizer_target(struct symbolizer *s, const struct process *process,
                       const struct symbolizer_where *where, uint64_t to,
                       struct place *place)
{
    if (where->leaves) {
        places_unknown(s->places, to, place);
    } else {
        symbolizer_place(s, process, where, to, place);
    }
}

void symbolizer_place_until(struct symbolizer *s,
                            const struct process *process,
                            const struct symbolizer_where *where,
                            uint64_t until, uint64_t address,
                            struct place *place)
{
    struct symbolizer_where at = *where;
    struct place other;
    uint64_t last;

    symbolizer_place(s, process, &at, address, place);
    if (address < ADDRESS_SHARED) {
        return;
    }
    for (;;) {
        kernel_names_era(s->kernel, at.kernel, at.time, &last);
        if (last >= until) {
            return;
        }
        at.time = last + 1;
        symbolizer_place(s, process, &at, address, &other);
        if (other.function != place->function) {
            places_unknown(s->places, address, place);
            return;
        }
    }
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
                       GArray *starts)
{
    kernel_names_starts(s->kernel, name, starts);
}

void symbolizer_elfs_in(struct symbolizer *s,
                        const struct btrail_process *version,
                        places_elf_fn *fn, void *opaque)
{
    places_elfs_in(s->places, version, fn, opaque);
}

void symbolizer_starts_in(struct symbolizer *s,
                          const struct btrail_process *version,
                          const char *name, GArray *addresses)
{
    places_starts_in(s->places, version, name, addresses);
}

void symbolizer_files(struct symbolizer *s, const struct process *process,
                      const struct symbolizer_where *where, uint64_t address,
                      places_file_fn *fn, void *opaque)
{
    places_files(s->places, process, where, address, fn, opaque);
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
           places_read(s->places, process, where, address, buf, n);
}

size_t symbolizer_constant(struct symbolizer *s, const struct process *process,
                           const struct symbolizer_where *where,
                           uint64_t address, void *buf, size_t n)
{
    return places_read_constant(s->places, process, where, address, buf, n);
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

uint64_t symbolizer_code_content(const struct symbolizer *s,
                                 const struct symbolizer_where *where,
                                 uint64_t address)
{
    return s->code ? btrail_code_content(s->code, where->vcpu, where->index,
                                         where->cr3, address) : 0;
}

struct btrail_code_stretch
symbolizer_code_stretch(const struct symbolizer *s,
                        const struct symbolizer_where *where)
{
    if (s->code) {
        return btrail_code_stretch(s->code, where->vcpu, where->index);
    }
    return (struct btrail_code_stretch) { 1, 0, UINT64_MAX };
}

unsigned symbolizer_bits(struct symbolizer *s, const struct process *process,
                         const struct symbolizer_where *where,
                         uint64_t address)
{
    unsigned bits = btrail_cr3_code_bits(where->cr3);
    struct place place;

    if (address >= (UINT64_C(1) << 32)) {
        return 64;
    }
    if (bits) {
        return bits;
    }
    symbolizer_place(s, process, where, address, &place);
    return place.function->module->elf ? place.function->module->bits :
           process->owner->bits;
}
