/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From addresses to names: see symbolizer.h
 */

#include <elf.h>
#include <errno.h>
#include <gio/gio.h>
#include <stdlib.h>

#include "backtrail/code.h"
#include "symbolize/symbolizer.h"

struct symbolizer {
    struct map_file *map;
    struct elf_files *files;
    struct address_space *own_shared;   /* if there is no map */
    struct btrail_names *names;
    struct btrail_owners *owners;
    struct btrail_code *code;
    struct processes *processes;
    struct task_finder *tasks;
    struct places *places;
};

static void add_image(struct symbolizer *s, const void *data, size_t size)
{
    const uint8_t *bytes = data;

    elf_files_add_image(s->files, size > EI_CLASS &&
                        bytes[EI_CLASS] == ELFCLASS32 ? PLACES_VDSO32 :
                        PLACES_VDSO, data, size);
}

static void add_symbols(struct symbolizer *s, struct address_space *shared)
{
    struct btrail_symbol symbol;
    size_t i;

    for (i = 0; !btrail_names_symbol(s->names, i, &symbol); i++) {
        g_autofree char *module = symbol.module ?
                                  g_strdup_printf("[%s]", symbol.module) :
                                  NULL;

        if (g_utf8_validate(symbol.name, -1, NULL)) {
            address_space_kallsyms(shared, symbol.address, symbol.type,
                                   symbol.name, module);
        }
    }
}

/* Reads the sideband, without the parts that are damaged. */
static void read_sideband(struct symbolizer *s,
                          const struct btrail_trace *trace,
                          struct address_space *shared)
{
    struct btrail_sideband_info info;
    void *data;
    unsigned i;
    int ret;

    for (i = 0; (ret = btrail_trace_sideband(trace, i, &info, NULL)) !=
         -BTRAIL_ERR_END; i++) {
        if (!ret && info.kind == BTRAIL_SIDEBAND_IMAGE &&
            !btrail_trace_sideband(trace, i, &info, &data)) {
            add_image(s, data, info.size);
            free(data);
        }
    }
    if (btrail_names_open(&s->names, trace)) {
        s->names = NULL;
    } else {
        add_symbols(s, shared);
        if (btrail_owners_open(&s->owners, trace, s->names)) {
            s->owners = NULL;
        }
    }
    if (btrail_code_open(&s->code, trace)) {
        s->code = NULL;
    }
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

struct symbolizer *symbolizer_new(const struct symbolizer_options *options,
                                  const struct btrail_trace *trace,
                                  GError **error)
{
    struct symbolizer *s = g_new0(struct symbolizer, 1);
    struct elf_file *vmlinux = NULL;
    struct address_space *shared;

    s->files = elf_files_new(&options->files);
    s->own_shared = shared = address_space_new();
    if (options->map) {
        s->map = map_file_read(options->map, error);
        shared = s->map ? map_file_shared(s->map) : NULL;
    }
    if (shared && options->vmlinux) {
        vmlinux = open_vmlinux(s, options->vmlinux, error);
    }
    if (!shared || (options->vmlinux && !vmlinux)) {
        symbolizer_free(s);
        return NULL;
    }
    if (trace) {
        read_sideband(s, trace, shared);
    }
    s->processes = processes_new(s->map, s->names, s->owners);
    s->tasks = task_finder_new(trace, shared, s->names, s->owners,
                               s->processes);
    s->places = places_new(s->files, vmlinux, shared, s->names,
                           s->processes);
    return s;
}

void symbolizer_free(struct symbolizer *s)
{
    if (s) {
        places_free(s->places);
        task_finder_free(s->tasks);
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

bool symbolizer_part(struct symbolizer *s, unsigned vcpu,
                     const struct btrail_batch *b, struct btrail_batch *part,
                     struct task *task)
{
    return task_finder_part(s->tasks, vcpu, b, part, task);
}

void symbolizer_place(struct symbolizer *s, const struct process *process,
                      uint64_t address, struct place *place)
{
    places_find(s->places, process, address, place);
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

unsigned symbolizer_bits(struct symbolizer *s, const struct process *process,
                         uint64_t address)
{
    struct place place;

    if (address >= (UINT64_C(1) << 32)) {
        return 64;
    }
    symbolizer_place(s, process, address, &place);
    return place.function->module->elf ? place.function->module->bits :
           process->bits;
}
