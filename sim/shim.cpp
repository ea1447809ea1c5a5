/* shim.cpp: the one C++ file of luoshu. */
#include "sim/shim.h"

#include <dlfcn.h>
#include <simgrid/kernel/ProfileBuilder.hpp>
#include <simgrid/kernel/routing/NetPoint.hpp>
#include <simgrid/kernel/routing/NetZoneImpl.hpp>
#include <simgrid/s4u.hpp>
#include <simgrid/simix.hpp>

namespace {
bool stay; /* luo_shim_hosts_stay */
}

/* Of the versions that were looked at. Goes before the library's function of that name, as symbols
 * of the program do; that one is sought by its mangled name. It writes transfers into a list, in
 * which hosts that go off look for theirs; each transfer that ends is taken out of it by a walk
 * along all that are under way. */
#if SIMGRID_VERSION < 33300
namespace simgrid::kernel::activity {
class CommImpl {
public:
    CommImpl &detach();
};
CommImpl &CommImpl::detach()
{
    typedef CommImpl *(*function)(CommImpl *);
    static const function library =
        (function)dlsym(RTLD_NEXT, "_ZN7simgrid6kernel8activity8CommImpl6detachEv");
    return stay || !library ? *this : *library(this);
}
} // namespace simgrid::kernel::activity
#endif

using simgrid::kernel::resource::StandardLinkImpl;
using simgrid::kernel::routing::NetPoint;
using simgrid::kernel::routing::NetZoneImpl;
using simgrid::kernel::routing::Route;

namespace {

/* Routes are what the transfer being started says (in the kernel step that starts it). */
class Zone : public NetZoneImpl {
public:
    explicit Zone(const std::string &name) : NetZoneImpl(name) {}
    void get_local_route(const NetPoint *, const NetPoint *, Route *into, double *) override
    {
        for (int i = 0; i < count; i++)
            into->link_list_.push_back(links[i]->get_data<StandardLinkImpl>());
    }
    const sg_link_t *links = nullptr;
    int count = 0;
};

Zone *zone; /* one engine per process, one zone per engine; freed by SimGrid */

/* Looks again whether both ends are on and starts in one kernel step: an actor may switch an end
 * off at the same date, and starting then is an assertion that cannot be caught. The route is set
 * there too, since other actors run between a call and its kernel step. */
sg_comm_t start(sg_host_t src, sg_host_t dst, const sg_link_t *links, int n, uint64_t bytes)
{
    if (!src->is_on() || !dst->is_on()) return nullptr;
    auto c = simgrid::s4u::Comm::sendto_init(src, dst);
    c->set_payload_size(bytes);
    const bool up = simgrid::kernel::actor::simcall_answered([&] {
        const bool both = src->is_on() && dst->is_on();
        if (zone) {
            zone->links = links;
            zone->count = n;
        }
        if (both) c->start();
        return both;
    });
    if (!up) return nullptr;
    intrusive_ptr_add_ref(c.get());
    return c.get();
}

} // namespace

extern "C" {

void luo_shim_zone_open(void)
{
    zone = new Zone("net"); /* the first zone is the root */
}

sg_host_t luo_shim_host_new(const char *name, double flops_per_s)
{
    return zone->create_host(name, {flops_per_s})->seal();
}

sg_link_t luo_shim_link_new(const char *name, double bytes_per_s)
{
    sg_link_t link = zone->create_link(name, {bytes_per_s})->seal();
    link->set_data(zone->get_link_by_name_or_null(name)); /* asked for with every transfer */
    return link;
}

void luo_shim_zone_seal(void)
{
    zone->seal();
}

sg_comm_t luo_shim_flow(sg_host_t src, sg_host_t dst, const sg_link_t *links, int n, uint64_t bytes)
{
    return start(src, dst, links, n, bytes);
}

sg_comm_t luo_shim_send(sg_host_t src, sg_host_t dst, uint64_t bytes)
{
    return start(src, dst, nullptr, 0, bytes);
}

void luo_shim_hosts_stay(int on)
{
    stay = on;
}

void luo_shim_exec_cancel(sg_exec_t e)
{
    e->cancel();
}

void luo_shim_comm_cancel(sg_comm_t c)
{
    c->cancel();
}

void luo_shim_link_power(sg_link_t link, int on)
{
    if (on) link->turn_on();
    else link->turn_off();
}

void luo_shim_host_speed(sg_host_t host, const char *dates)
{
    host->set_speed_profile(simgrid::kernel::profile::ProfileBuilder::from_string(
        host->get_name() + ".speed", dates, -1));
}

void luo_shim_on_deadlock(void (*stuck)(void *), void *ctx)
{
    simgrid::s4u::Engine::on_deadlock_cb([stuck, ctx] { stuck(ctx); });
}

} // extern "C"
