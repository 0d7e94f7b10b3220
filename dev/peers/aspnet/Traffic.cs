using System.Collections.Generic;
using System.Linq;
using System.Threading.Tasks;
using Microsoft.AspNetCore.Http;

// The requests except those of /control, and faults of their negotiations and connections.
public sealed class Traffic
{
    const int Limit = 500;
    readonly object locked = new object();
    readonly HashSet<HttpContext> inProgress = new HashSet<HttpContext>();
    readonly Queue<object> last = new Queue<object>();
    int refusals;
    int status;

    // The time that a negotiation takes, in milliseconds.
    public int Delay { get; set; }

    // The next negotiations fail with a status.
    public int Refuse(int times, int status)
    {
        lock (locked)
        {
            this.status = status;
            return refusals = times;
        }
    }

    // Closes the connections of all requests that are in progress, and returns their number.
    public int Cut()
    {
        // Under the lock, because the server reuses the context of a request that has ended.
        lock (locked)
        {
            foreach (var context in inProgress) context.Abort();
            return inProgress.Count;
        }
    }

    // The latest requests, the oldest first.
    public object Requests(bool clears)
    {
        lock (locked)
        {
            var requests = last.ToArray();
            if (clears) last.Clear();
            return requests;
        }
    }

    public async Task Handle(HttpContext context, RequestDelegate next)
    {
        if (context.Request.Path.StartsWithSegments("/control"))
        {
            await next(context);
            return;
        }
        Begin(context);
        try
        {
            if (context.Request.Path.Value.EndsWith("/negotiate"))
            {
                await Task.Delay(Delay, context.RequestAborted);
                if (IsRefused(context.Response)) return;
            }
            await next(context);
        }
        finally
        {
            lock (locked) inProgress.Remove(context);
        }
    }

    void Begin(HttpContext context)
    {
        var request = context.Request;
        var headers = request.Headers.ToDictionary(header => header.Key, header => header.Value.ToString());
        var entry = new { method = request.Method, path = request.Path.Value, query = request.QueryString.Value, headers };
        lock (locked)
        {
            inProgress.Add(context);
            last.Enqueue(entry);
            if (last.Count > Limit) last.Dequeue();
        }
    }

    bool IsRefused(HttpResponse response)
    {
        lock (locked)
        {
            if (refusals == 0) return false;
            refusals--;
            response.StatusCode = status;
            return true;
        }
    }
}
